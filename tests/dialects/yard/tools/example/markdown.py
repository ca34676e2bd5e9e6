def run(text):
    return {"data": {"markdown": "# " + text}}
