"""The dialog tools that the conformance suite calls, one function each."""

import json
import threading
import time

import toolyard_dialog as dialog


def form(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def question(prompt):
    return {"messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": 100}


NAME = form(name={"type": "string"})


def together(**questions):
    """Asks everything at once; what cannot be answered is None."""
    answers = {}

    def one(id, kind):
        try:
            answers[id] = dialog.ask(id=id, **kind)
        except dialog.Refused:
            answers[id] = None

    threads = [threading.Thread(target=one, args=item) for item in questions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def progress():
    for percent in (0, 50, 100):
        dialog.progress(percent)
        time.sleep(0.06)
    return "Tool with progress executed"


def sampling(prompt="Hello"):
    answer = dialog.ask(sample=question(prompt))
    return f"LLM response: {answer['content']['text']}"


def elicitation(message):
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    answer = dialog.ask(elicit={"message": message, "schema": schema})
    return f"User response: <action: {answer['action']}, content: {json.dumps(answer.get('content', {}))}>"


def completed(schema):
    answer = dialog.ask(elicit={"message": "Please fill in the form", "schema": schema})
    return f"Elicitation completed: action={answer['action']}, content={json.dumps(answer.get('content', {}))}"


def elicitation_defaults():
    return completed(form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ))


def elicitation_enums():
    def titled(word):
        return [{"const": f"value{n}", "title": f"{name} {word}"} for n, name in ((1, "First"), (2, "Second"), (3, "Third"))]

    options = ["option1", "option2", "option3"]
    names = ["Option One", "Option Two", "Option Three"]
    return completed(form(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled("Option")},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled("Choice")}},
    ))


def reconnection():
    dialog.close_stream(100)
    time.sleep(0.5)
    return "Reconnection test completed"


def input_name():
    answer = dialog.ask(id="user_name", elicit={"message": "What is your name?", "schema": NAME})
    return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"


def input_sampling():
    return dialog.ask(id="capital_question", sample=question("What is the capital of France?"))["content"]["text"]


def input_roots():
    return json.dumps(dialog.ask(id="client_roots", roots={})["roots"])


def input_state():
    dialog.ask(id="confirm", elicit={"message": "Please confirm", "schema": form(ok={"type": "boolean"})})
    return "state-ok"


def input_multiple():
    answers = together(
        user_name={"elicit": {"message": "What is your name?", "schema": NAME}},
        greeting={"sample": question("Generate a greeting")},
        client_roots={"roots": {}},
    )
    return json.dumps(answers)


def input_rounds():
    color = form(color={"type": "string"})
    first = dialog.ask(id="step1", elicit={"message": "Step 1: What is your name?", "schema": NAME})
    second = dialog.ask(id="step2", elicit={"message": "Step 2: What is your favorite color?", "schema": color})
    return json.dumps([first.get("content"), second.get("content")])


def input_capabilities():
    return json.dumps(together(
        elicit_input={"elicit": {"message": "Elicitation input", "schema": form(value={"type": "string"})}},
        sample_input={"sample": question("Sample request")},
    ))


def confirm_delete(filename="a file"):
    ok = form(confirm={"type": "boolean"})
    answer = dialog.ask(id="confirm", elicit={"message": f"Delete {filename}?", "schema": ok})
    return "Deleted" if answer["action"] == "accept" else "Kept"


def multi_input():
    return json.dumps(together(
        first={"elicit": {"message": "First?", "schema": NAME}},
        second={"elicit": {"message": "Second?", "schema": NAME}},
    ))


def ask_then_work():
    answer = dialog.ask(id="user_name", elicit={"message": "What is your name?", "schema": NAME})
    dialog.detach()
    time.sleep(0.3)
    return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"


def make_prompt():
    schema = form(context={"type": "string"})
    answer = dialog.ask(id="user_context", elicit={"message": "What context should the prompt use?", "schema": schema})
    text = f"Use this context: {answer.get('content', {}).get('context', 'none')}"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
