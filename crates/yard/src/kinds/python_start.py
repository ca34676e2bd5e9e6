# Starts what the interpreter was asked for (-c TEXT, -m MODULE or a script) with the folders of the yard last on
# sys.path: a tool may write some of them, and a folder named like a module must not stand in for that module.
# Nothing is imported before the working folder is gone from sys.path.
import sys

sys.path[:] = [path for path in sys.path if path]
sys.argv[:1] = []


def start():
    import os

    mode = sys.argv[0]
    if mode == "-c":
        text = sys.argv.pop(1)
        sys.path.append(os.getcwd())
        return text, "<string>"
    if mode == "-m":
        import runpy

        module = sys.argv.pop(1)
        sys.path.append(os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        sys.exit()
    file = os.path.abspath(mode)
    sys.path.append(os.path.dirname(os.path.realpath(mode)))
    sys.path.append(os.getcwd())
    content = None if os.path.isdir(file) else open(file, "rb").read()
    if content is None or content.startswith(b"PK\x03\x04"):
        import runpy

        runpy.run_path(file, run_name="__main__")
        sys.exit()
    return content, file


def run(content, file):
    names = sys.modules["__main__"].__dict__
    for name in ("start", "run", "sys"):
        del names[name]
    if file != "<string>":
        names["__file__"] = file
    exec(compile(content, file, "exec", dont_inherit=True), names)


run(*start())
