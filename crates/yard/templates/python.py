"""The arguments arrive as keyword arguments; the return value is the result."""


def run(name: str) -> dict:
    return {"greeting": f"Hello, {name}!"}
