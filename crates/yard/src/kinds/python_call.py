# Calls one function with the JSON object on stdin as its keyword arguments and answers on stdout.
# What the function prints goes to stderr, so that it can't spoil the answer.
import importlib, inspect, json, sys

answer_to, sys.stdout = sys.stdout, sys.stderr
DIALOG = sys.modules.get("toolyard_dialog")
CODES = ("EINVAL", "ETIMEOUT", "ECAP", "EINTERNAL")


def answer(value):
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    answer_to.buffer.write(text.encode("utf-8", "surrogatepass"))
    answer_to.flush()


def failure(code, message):
    answer({"error": {"code": code, "message": message}})


def is_content(value):
    """Whether it is MCP content and nothing else, by the same rule as everywhere."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        return False
    if value.keys() - {"content", "isError", "structuredContent", "_meta"}:
        return False
    types = {"text", "image", "audio", "resource", "resource_link"}
    typed = (isinstance(block, dict) and block.get("type") in types for block in value["content"])
    return all(typed) and (len(value) > 1 or bool(value["content"]))


def main(module, path):
    request = sys.stdin.buffer.readline() if DIALOG else sys.stdin.buffer.read()
    payload = json.loads(request.decode("utf-8"))
    function = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    try:
        inspect.signature(function).bind(**payload)
    except TypeError as error:
        return failure("EINVAL", str(error))
    except ValueError:
        pass  # some built-in functions have no signature to look at
    value = function(**payload)
    if inspect.isawaitable(value):
        import asyncio

        value = asyncio.run(value)
    envelope = isinstance(value, dict) and len(value) == 1 and ("data" in value or "error" in value)
    answer(value if envelope or is_content(value) else {"data": value})


try:
    main(*sys.argv[1].split(":"))
except Exception as error:
    import traceback

    traceback.print_exc()
    code = getattr(error, "code", None)
    failure(code if code in CODES else "EINTERNAL", f"{type(error).__name__}: {error}")
