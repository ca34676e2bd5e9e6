//! Tests the proxy with real sockets of this machine; only name resolution is stubbed.

use super::upstream::Addresses;
use super::*;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::io::AsyncReadExt;

/// Resolves every name to the same addresses.
struct Always(Vec<SocketAddr>);

impl Resolve for Always {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Addresses<'a> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

/// Fails the test if a name is resolved at all.
struct Never;

impl Resolve for Never {
    fn resolve<'a>(&'a self, name: &'a str, _: u16) -> Addresses<'a> {
        panic!("'{name}' was looked up");
    }
}

async fn proxy_with(rules: &[&str], resolve: impl Resolve + 'static, bounds: Bounds) -> u16 {
    let hosts = Arc::new(HostRules::parse(rules.iter().copied()).unwrap());
    proxy_to(
        Reachable { hosts, requested: RequestedHosts::default(), is_own_port: Arc::new(|_| false) },
        resolve,
        bounds,
    )
    .await
}

async fn proxy_to(reachable: Reachable, resolve: impl Resolve + 'static, bounds: Bounds) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(serve_with(listener, reachable, Arc::new(resolve), bounds));
    port
}

async fn proxy(rules: &[&str]) -> u16 {
    proxy_with(rules, Never, BOUNDS).await
}

/// An HTTP server that responds with the request it received.
async fn mirror() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                let mut count = 0;
                while !bytes[..count].windows(4).any(|window| window == b"\r\n\r\n") {
                    count += stream.read(&mut bytes[count..]).await.unwrap();
                }
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(&bytes[..count]).await.unwrap();
            });
        }
    });
    port
}

/// Sends the request and returns the whole response.
async fn ask(proxy: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

fn get(target: &str) -> String {
    format!("GET http://{target}/x HTTP/1.1\r\nHost: elsewhere\r\n\r\n")
}

fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

#[tokio::test]
async fn only_an_allowed_address_is_reachable_by_forward_and_by_tunnel() {
    let (allowed, other) = (mirror().await, mirror().await);
    let proxy = proxy(&[&format!("127.0.0.1:{allowed}")]).await;
    let answer = ask(proxy, &get(&format!("127.0.0.1:{allowed}"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("GET /x HTTP/1.1\r\n"), "{answer}");
    assert!(
        answer.contains(&format!("Host: 127.0.0.1:{allowed}")) && !answer.contains("elsewhere"),
        "{answer}"
    );
    let tunnel = format!("{}GET /inner HTTP/1.1\r\n\r\n", connect(&format!("127.0.0.1:{allowed}")));
    let answer = ask(proxy, &tunnel).await;
    assert!(answer.starts_with("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("GET /inner HTTP/1.1"), "{answer}");
    let localhost = ask(proxy, &get(&format!("localhost:{allowed}"))).await;
    assert!(localhost.contains("200 OK"), "{localhost}");
    for target in [
        format!("127.0.0.1:{other}"),
        format!("127.0.0.2:{allowed}"),
        format!("[::1]:{allowed}"),
        format!("127.1:{allowed}"),
        format!("2130706433:{allowed}"),
        format!("0x7f000001:{allowed}"),
        format!("0.0.0.0:{allowed}"),
        format!("example.org:{allowed}"),
        "169.254.169.254:80".to_owned(),
    ] {
        for request in [get(&target), connect(&target)] {
            let answer = ask(proxy, &request).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
            let (_, reason) = answer.split_once("\r\n\r\n").unwrap();
            assert!(reason.lines().count() == 1 && reason.len() > 10, "{reason}");
        }
    }
}

#[tokio::test]
async fn a_name_resolves_to_a_private_address_only_with_a_private_rule() {
    let port = mirror().await;
    let here: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    for (rule, resolved, expected) in [
        (format!("a.example:{port}"), vec![here], "403"),
        (format!("*.example:{port}"), vec![here], "rule"),
        (format!("private:a.example:{port}"), vec![here], "200"),
        (format!("a.example:{port}"), vec!["[::ffff:127.0.0.1]:1".parse().unwrap(), here], "403"),
        (format!("a.example:{port}"), vec!["10.1.2.3:1".parse().unwrap()], "403"),
        (format!("a.example:{port}"), Vec::new(), "502"),
    ] {
        if expected == "rule" {
            assert!(HostRules::parse([rule.as_str()]).is_err());
            continue;
        }
        let proxy = proxy_with(&[&rule], Always(resolved), BOUNDS).await;
        let answer = ask(proxy, &get(&format!("a.example:{port}"))).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{rule}: {answer}");
    }
}

#[tokio::test]
async fn names_outside_the_rules_are_not_resolved() {
    let proxy = proxy(&["*.example.org", "api.example"]).await;
    for target in ["secret-data.evil.example:443", "example.org:443", "api.example.evil.example:443"] {
        let answer = ask(proxy, &connect(target)).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
}

#[tokio::test]
async fn a_second_request_on_the_same_connection_is_not_forwarded() {
    let port = mirror().await;
    let proxy = proxy(&[&format!("127.0.0.1:{port}")]).await;
    let target = format!("127.0.0.1:{port}");
    let both = get(&target) + &get("evil.example").replace("/x", "/smuggled");
    let answer = ask(proxy, &both).await;
    assert!(answer.contains("200 OK") && !answer.contains("smuggled"), "{answer}");
}

#[tokio::test]
async fn malformed_oversized_and_slow_heads_are_refused() {
    let port = mirror().await;
    let quick = Bounds { header_time: Duration::from_millis(300), ..BOUNDS };
    let proxy = proxy_with(&[&format!("127.0.0.1:{port}")], Never, quick).await;
    for bad in ["hello\r\n\r\n", "\x16\x03\x01\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
        assert!(ask(proxy, bad).await.starts_with("HTTP/1.1 403 "), "{bad:?}");
    }
    let large = get(&format!("127.0.0.1:{port}")).replace("elsewhere", &"x".repeat(17 << 10));
    let answer = ask(proxy, &large).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("16384 bytes"), "{answer}");
    let started = Instant::now();
    let answer = ask(proxy, "GET http://127.0.0.1/ HTTP/1.1\r\nSlow: ").await;
    assert!(answer.contains("took too long"), "{answer}");
    assert!((300..5000).contains(&started.elapsed().as_millis()));
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_are_closed() {
    let port = mirror().await;
    let few = Bounds { connections: 2, idle: Duration::from_millis(400), ..BOUNDS };
    let proxy = proxy_with(&[&format!("127.0.0.1:{port}")], Never, few).await;
    let target = format!("127.0.0.1:{port}");
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy)).await.unwrap();
        stream.write_all(connect(&target).as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        idle.push(stream);
    }
    // Two idle tunnels hold both permits; the third connection waits until they are closed.
    let started = Instant::now();
    let answer = ask(proxy, &get(&target)).await;
    assert!(answer.contains("200 OK"), "{answer}");
    assert!(started.elapsed() > Duration::from_millis(200), "{:?}", started.elapsed());
    let mut rest = Vec::new();
    let cut = tokio::time::timeout(Duration::from_secs(5), idle[0].read_to_end(&mut rest)).await;
    assert!(cut.is_ok());
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
    });
    let proxy = proxy(&[&format!("127.0.0.1:{port}")]).await;
    let mut stream = TcpStream::connect(("127.0.0.1", proxy)).await.unwrap();
    stream.write_all(connect(&format!("127.0.0.1:{port}")).as_bytes()).await.unwrap();
    let mut head = [0; 39];
    stream.read_exact(&mut head).await.unwrap();
    assert!(head.ends_with(b"\r\n\r\n"), "{head:?}");
    let sent: Vec<u8> = (0..4_000_000u32).map(|i| (i % 251) as u8).collect();
    let (mut from, mut to) = stream.into_split();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        to.write_all(&copy).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    from.read_to_end(&mut back).await.unwrap();
    writer.await.unwrap();
    assert!(back == sent, "{} of {} bytes came back", back.len(), sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn python_uses_the_proxy_through_its_environment() {
    let port = mirror().await;
    let rule = format!("127.0.0.1:{port}");
    let rules = HostRules::parse([rule.as_str()]).unwrap();
    let proxy = proxy(&[&rule]).await;
    let script = "import sys, urllib.request, urllib.error\n\
        for url in sys.argv[1:]:\n    \
            try: print(urllib.request.urlopen(url, timeout=10).status)\n    \
            except urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())\n    \
            except Exception as error: print(type(error).__name__, error)\n";
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        "http://evil.example/".to_owned(),
        "https://evil.example/".to_owned(),
    ];
    let run = move || {
        let mut python = std::process::Command::new("python3");
        python.arg("-c").arg(script).args(urls).env_clear().envs(environment(proxy, &rules));
        python.env("PATH", "/usr/local/bin:/usr/bin:/bin").output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "200", "{lines:?}");
    assert!(lines[1].starts_with("403 evil.example:80 is not among"), "{lines:?}");
    assert!(lines[2].contains("403"), "{lines:?}");
}

#[test]
fn every_spelling_of_the_variables_is_set() {
    // Its own loopback is reached directly, unless a rule means the machine's.
    let own = "localhost,127.0.0.1,::1";
    for (rule, direct) in [
        ("api.example", own),
        ("10.0.0.1:80", own),
        ("127.0.0.1:80", ""),
        ("[::1]:80", ""),
        ("localhost:80", ""),
    ] {
        let pairs = environment(8123, &HostRules::parse([rule]).unwrap());
        let value = |name: &str| pairs.iter().find(|(known, _)| known == name).unwrap().1.to_str().unwrap();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            assert_eq!(value(name), "http://127.0.0.1:8123");
        }
        assert_eq!((value("NO_PROXY"), value("no_proxy")), (direct, direct), "{rule}");
    }
}

#[tokio::test]
async fn no_rule_opens_a_port_of_this_process() {
    let (own, other) = (mirror().await, mirror().await);
    let rules = [
        format!("localhost:{own}"),
        format!("127.0.0.1:{own}"),
        format!("[::1]:{own}"),
        format!("private:here.example:{own}"),
        format!("localhost:{other}"),
    ];
    let hosts = Arc::new(HostRules::parse(rules.iter().map(String::as_str)).unwrap());
    let here = Always(vec![SocketAddr::from(([127, 0, 0, 1], own))]);
    let port = proxy_to(
        Reachable {
            hosts,
            requested: RequestedHosts::default(),
            is_own_port: Arc::new(move |port| port == own),
        },
        here,
        BOUNDS,
    )
    .await;
    for host in ["localhost", "127.0.0.1", "[::1]", "here.example"] {
        let answer = ask(port, &connect(&format!("{host}:{own}"))).await;
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("is Toolyard itself"),
            "{host}: {answer}"
        );
    }
    let answer = ask(port, &connect(&format!("localhost:{other}"))).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "another port of this machine stays open: {answer}");
}
