import json
import sys

print(json.dumps("Hello, " + json.load(sys.stdin)["name"] + "!"))
