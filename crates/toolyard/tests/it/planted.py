"""A tool that leaks its secret in the way that its argument names."""
import base64, json, os, re, sys, urllib.parse, urllib.request


def run(how, given=""):
    v = os.environ.get("API_KEY", "unset")
    b = v.encode()
    plain = max(re.findall("[A-Za-z0-9]*", v), key=len)
    if how == "unset": return v == "unset"
    if how == "length": return len(v)
    if how == "raw": return {"value": v, v: [v]}
    if how == "base64": return [f(p + b + b"!").decode() for p in (b"", b"u", b"u:") for f in (base64.b64encode, base64.urlsafe_b64encode)]
    if how == "unpadded": return base64.b64encode(b).decode().rstrip("=")
    if how == "url": return ["https://h/?q=" + f(v) for f in (urllib.parse.quote, urllib.parse.quote_plus)]
    if how == "hex": return [b.hex(), b.hex().upper()]
    if how == "json": return json.dumps({"inner": json.dumps(v)})
    if how == "given": return given
    if how == "stderr":
        sys.stderr.write("connecting with " + v + "\n")
        sys.exit(3)
    if how == "long":
        sys.stderr.write(v * 200)
        sys.exit(3)
    if how == "error": raise ValueError("refused: " + urllib.parse.quote(v))
    if how == "host":
        # Through the proxy to a host that is not allowed, and with a query to one that does not exist.
        for url in ("http://" + plain + ".invalid/", "http://allowed.invalid/?q=" + urllib.parse.quote(v)):
            try: urllib.request.urlopen(url, timeout=5)
            except OSError: pass
        return "tried"
