import toolyard_dialog as dialog

FORM = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "title": "Size", "enum": ["small", "large"]},
        "sugar": {"type": "integer", "title": "Spoons of sugar", "minimum": 0, "maximum": 5, "default": 1},
    },
    "required": ["size"],
}


def run(drink):
    dialog.progress(0, "taking the order")
    try:
        wishes = dialog.elicit(f"How do you like your {drink}?", FORM)
    except dialog.Refused as refused:
        dialog.log(f"made as always: {refused}", level="notice")
        wishes = {"size": "small", "sugar": 1}
    if wishes is None:
        return {"error": {"code": "EINVAL", "message": "the order was not confirmed"}}
    dialog.progress(50, "brewing")
    return {"drink": drink, **wishes}
