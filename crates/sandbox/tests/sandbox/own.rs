//! What a run has to itself: a home folder, loopback, terminals.

use super::*;

const LOOPBACK: &str = "
import os, socket, stat, sys
home = os.stat('/tmp/home')
print(stat.filemode(home.st_mode), os.listdir('/tmp/home'))
for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    if host == '::1' and not os.path.exists('/proc/sys/net/ipv6'):
        continue
    with socket.create_server((host, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2]) as one, server.accept()[0] as other:
            one.sendall(b'tcp')
            assert other.recv(3) == b'tcp'
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
    a.bind(('127.0.0.1', 0))
    b.sendto(b'udp', a.getsockname())
    assert a.recv(3) == b'udp'
main, side = os.openpty()
os.write(main, b'line\\n')
assert os.read(side, 5) == b'line\\n'
print(os.ttyname(side), os.get_terminal_size(side).columns >= 0, sorted(os.listdir('/dev/pts')))
";

#[tokio::test]
async fn a_program_has_a_home_loopback_and_terminals_of_its_own() {
    let yard = Yard::new();
    if !require(yard.launcher.sandbox_level() == SandboxLevel::Full, NOT_FULL) {
        return;
    }
    // The second run gets what the first one has left.
    for _ in 0..2 {
        let finished =
            yard.run(yard.confinement(SandboxLevel::Full), PYTHON, &["-c", LOOPBACK]).await.unwrap();
        let output = ShellOutput::new(finished);
        assert_eq!(output.out, "drwx------ []\n/dev/pts/0 True ['0', 'ptmx']", "{output:?}");
    }
}

#[tokio::test]
async fn no_run_reaches_the_loopback_of_another() {
    let yard = Yard::new();
    if !require(yard.launcher.sandbox_level() == SandboxLevel::Full, NOT_FULL) {
        return;
    }
    let listen = "
import os, socket, time
server = socket.create_server(('127.0.0.1', 4321))
socket.create_connection(('127.0.0.1', 4321)).close()
open('data/ready', 'w').close()
while not os.path.exists('data/done'):
    time.sleep(0.01)
print('listened')
";
    let connect = "
import os, socket, time
while not os.path.exists('data/ready'):
    time.sleep(0.01)
print(socket.socket().connect_ex(('127.0.0.1', 4321)))
open('data/done', 'w').close()
";
    let run =
        async |script: &str| yard.run(yard.confinement(SandboxLevel::Full), PYTHON, &["-c", script]).await;
    // Fills the pool, so that the two runs are known to take different namespaces from it.
    let (one, other) = tokio::join!(run("print(1)"), run("print(1)"));
    assert!(one.unwrap().exit.is_success() && other.unwrap().exit.is_success());
    let (one, other) = tokio::join!(run(listen), run(connect));
    assert_eq!(ShellOutput::new(one.unwrap()).out, "listened");
    assert_eq!(ShellOutput::new(other.unwrap()).out, libc::ECONNREFUSED.to_string());
    // A namespace that is used again holds no socket of the run before.
    for _ in 0..3 {
        assert_eq!(ShellOutput::new(run(connect).await.unwrap()).out, libc::ECONNREFUSED.to_string());
    }
}
