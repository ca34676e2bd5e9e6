"""The arguments arrive as keyword arguments; what is returned is the result."""


def run(name: str) -> dict:
    return {"greeting": f"Hello, {name}!"}
