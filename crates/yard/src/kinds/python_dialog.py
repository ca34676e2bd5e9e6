# The module `toolyard_dialog` for functions of tools with `dialog: true`: progress, log lines, questions.
import itertools, json, sys, threading, types


def make_dialog():
    out, speaking, listening = sys.stdout, threading.Lock(), threading.Lock()
    answers, numbers = {}, itertools.count(1)

    class Refused(Exception):
        """Nobody answers the question: there is no one to ask, or they cannot be asked this."""

        def __init__(self, code, message):
            super().__init__(message)
            self.reason = code

    def send(**message):
        line = json.dumps({"$toolyard": message}, ensure_ascii=False, allow_nan=False)
        with speaking:
            out.buffer.write(line.encode("utf-8", "surrogatepass") + b"\n")
            out.flush()

    def progress(percent=None, message=None, *, done=None, total=None):
        body = {"percent": percent, "done": done, "total": total, "message": message}
        send(progress={name: value for name, value in body.items() if value is not None})

    def log(data, level="info", logger=None):
        send(log={"level": level, "logger": logger, "data": data})

    def ask(*, id=None, **question):
        """One of elicit={message, schema}, elicit_url={message, url}, sample={…}, roots={}."""
        number = id or f"q{next(numbers)}"
        send(ask={"id": number, **question})
        while True:
            with listening:  # the reader stores the answers of other threads
                if number not in answers:
                    line = sys.stdin.buffer.readline()
                    if not line:
                        raise Refused("cancelled", "the call is over")
                    answer = json.loads(line)["$toolyard"]["answer"]
                    answers[answer["id"]] = answer
                answer = answers.pop(number, None)
            if answer is not None:
                break
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def elicit(message, schema, id=None):
        """What the person filled in, or None when they declined."""
        result = ask(id=id, elicit={"message": message, "schema": schema})
        return result.get("content", {}) if result.get("action") == "accept" else None

    def close_stream(retry_ms=None):
        send(close_stream={} if retry_ms is None else {"retry_ms": retry_ms})

    def detach():
        send(detach={})

    module = types.ModuleType("toolyard_dialog")
    for item in (Refused, progress, log, ask, elicit, close_stream, detach):
        setattr(module, item.__name__, item)
    sys.modules["toolyard_dialog"] = module


make_dialog()
