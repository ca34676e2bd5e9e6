# What the attempts must not reach: a process of the yard's user, with sockets, memory, queues and files. Prints where
# everything is, as JSON, and removes it when its stdin closes.
import ctypes, http.server, json, os, socket, struct, sys, threading

outside, yard, marker = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(outside)
kept, create = [], 0o1000


def listen(family, address, protocol=0):
    try:
        listener = socket.socket(family, socket.SOCK_STREAM, protocol)
        listener.bind(address)
        listener.listen()
    except OSError:
        return None
    kept.append(listener)
    return listener.getsockname()[1] if family != socket.AF_UNIX else None


def datagrams(family, address):
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind(address)
    kept.append(receiver)
    return receiver


def echo(receiver):
    while True:
        message, sender = receiver.recvfrom(16)
        receiver.sendto(message, sender)


def serve(server):
    threading.Thread(target=server, daemon=True).start()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def handle(path):
    """The file handle of a path, as `open_by_handle_at` takes it."""
    buffer = ctypes.create_string_buffer(struct.pack("I", 128), 136)
    known = libc.name_to_handle_at(-100, path.encode(), buffer, ctypes.byref(ctypes.c_int()), 0) == 0
    return buffer.raw.hex() if known else None


def mounted(kinds):
    with open("/proc/mounts") as file:
        mounts = [line.split() for line in file]
    return next((mount[1] for mount in mounts if mount[2] in kinds), None)


def disk():
    disks = (f"/dev/{name}" for name in sorted(os.listdir("/sys/block")))
    return next((path for path in disks if os.path.exists(path)), None)


memory, writable = ctypes.create_string_buffer(marker.encode(), 64), ctypes.create_string_buffer(64)
udp = datagrams(socket.AF_INET, ("127.0.0.1", 0))
datagrams(socket.AF_UNIX, f"{outside}/datagrams")
datagrams(socket.AF_UNIX, f"\0{marker}-datagrams")
for address in (f"{outside}/stream", f"\0{marker}", f"\0{marker}-held", f"{yard}/socket"):
    listen(socket.AF_UNIX, address)
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
serve(lambda: echo(udp))
serve(web.serve_forever)
files = [f"/dev/shm/{marker}", f"/tmp/{marker}-held"]
for path in files:
    with open(path, "w") as file:
        file.write("not for tools")
key, queue = os.getpid(), f"{marker}-queue"
queues = [queue, f"{queue}-2"]
for name in queues:
    libc.mq_open(f"/{name}".encode(), os.O_CREAT | os.O_RDONLY, 0o600, None)
shm, sem, msg = libc.shmget(key, 4096, create | 0o600), libc.semget(key, 1, create | 0o600), libc.msgget(key, create | 0o600)
libc.msgsnd(msg, struct.pack("q8s", 1, b"for you"), 8, 0)
print(json.dumps({
    "pid": os.getpid(), "address": ctypes.addressof(memory), "writable": ctypes.addressof(writable),
    "fd": os.open(f"{outside}/read_outside/note", os.O_RDONLY), "handle": handle(f"{outside}/open_by_handle/note"),
    "port": listen(socket.AF_INET, ("127.0.0.1", 0)), "port6": listen(socket.AF_INET6, ("::1", 0)),
    "mptcp": listen(socket.AF_INET, ("127.0.0.1", 0), 262), "udp": udp.getsockname()[1], "web": web.server_port,
    "shm_key": key, "shm_id": shm, "sem_id": sem, "msg_id": msg, "queue": queue, "held": f"{marker}-held",
    "disk": disk(), "cgroup": mounted(("cgroup", "cgroup2")),
}), flush=True)  # fmt: skip
sys.stdin.read()
libc.shmctl(shm, 0, None), libc.semctl(sem, 0, 0), libc.msgctl(msg, 0, None)
for name in queues:
    libc.mq_unlink(f"/{name}".encode())
for path in files:
    os.unlink(path)
