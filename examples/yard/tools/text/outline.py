"""Finds the headings of a Markdown text."""
import re

HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
FENCE = re.compile(r"^ {0,3}(```|~~~)")


def run(text: str) -> dict:
    headings, fence = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        mark = FENCE.match(line)
        if mark:
            fence = None if fence == mark[1] else fence or mark[1]
            continue
        heading = None if fence else HEADING.match(line)
        if heading:
            headings.append({"level": len(heading[1]), "line": number, "title": heading[2]})
    return {"headings": headings}
