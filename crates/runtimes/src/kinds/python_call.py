# Calls one function with the JSON object on stdin as its keyword arguments and answers on stdout.
# What the function prints goes to stderr, so that it can't spoil the answer.
import asyncio, importlib, inspect, json, sys, traceback

answer_to, sys.stdout = sys.stdout, sys.stderr
CODES = ("EINVAL", "ETIMEOUT", "ECAP", "EINTERNAL")


def answer(value):
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    answer_to.buffer.write(text.encode("utf-8", "surrogatepass"))
    answer_to.flush()


def failure(code, message):
    answer({"error": {"code": code, "message": message}})


def main(module, path):
    payload = json.loads(sys.stdin.buffer.read().decode("utf-8"))
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
        value = asyncio.run(value)
    envelope = isinstance(value, dict) and len(value) == 1 and ("data" in value or "error" in value)
    answer(value if envelope else {"data": value})


try:
    main(*sys.argv[1].split(":"))
except Exception as error:
    traceback.print_exc()
    code = getattr(error, "code", None)
    failure(code if code in CODES else "EINTERNAL", f"{type(error).__name__}: {error}")
