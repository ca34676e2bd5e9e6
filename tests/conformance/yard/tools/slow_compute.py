import json
import sys
import time

seconds = json.load(sys.stdin).get("seconds", 1)
time.sleep(seconds)
print(json.dumps(f"Computed for {seconds} s"))
