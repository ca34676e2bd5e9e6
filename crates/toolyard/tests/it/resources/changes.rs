//! Subscribers are notified of changes of resources, once.

use super::{ROOT, Session, listen, text};
use crate::support::{Client, Yard};
use serde_json::json;

#[test]
fn changes_are_sent_to_subscribers_only() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1").file("notes/b.txt", "1").file("guide.md", "1");
    yard.file("resources/guide.resource.yaml", "uri: my://guide\nfile: guide.md\n");
    let mut session = Session::start(&yard);
    for uri in ["yard://notes/a.txt", "my://guide"] {
        assert_eq!(session.ask("resources/subscribe", json!({"uri": uri}))["result"], json!({}), "{uri}");
    }
    let updated = |uri: &str| json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
    yard.file("notes/b.txt", "2").file("notes/a.txt", "2");
    assert_eq!(session.notification(), updated("yard://notes/a.txt"));
    yard.file("guide.md", "2");
    assert_eq!(session.notification(), updated("my://guide"));
    yard.file("resources/guide.resource.yaml", "uri: my://guide\nfile: other.md\n").file("other.md", "1");
    assert_eq!(session.notification(), updated("my://guide"), "its own file changed");
    std::thread::sleep(std::time::Duration::from_millis(300));
    while !session.notifications.is_empty() {
        session.notification();
    }
    // A file that was added after the declaration may cause a second notification.
    assert_eq!(text(&session.ask("resources/read", json!({"uri": "my://guide"}))), "1");
    session.notifications.clear();
    yard.file("resources/fresh.resource.yaml", "uri: my://fresh\ntext: x\n");
    let listed = json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed", "params": {}});
    assert_eq!(session.notification(), listed);
    assert_eq!(text(&session.ask("resources/read", json!({"uri": "my://fresh"}))), "x");
    session.ask("resources/unsubscribe", json!({"uri": "yard://notes/a.txt"}));
    yard.file("notes/a.txt", "3");
    std::thread::sleep(std::time::Duration::from_millis(500));
    session.ask("ping", json!({}));
    assert!(session.notifications.is_empty(), "{:?}", session.notifications);
}

#[test]
fn a_stateless_client_receives_changes_on_its_stream() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1");
    let server = yard.serve();
    let filter = json!({"notifications": {"resourcesListChanged": true,
        "resourceSubscriptions": ["yard://notes/a.txt", "yard://notes/../toolyard.toml", "yard://notes/none"]}});
    let (mut listener, acknowledged) = listen(&server, filter);
    let honoured = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!(["yard://notes/a.txt"]), "{acknowledged}");
    yard.file("notes/a.txt", "2");
    let notification = listener.event().unwrap();
    assert_eq!(
        (&notification["method"], &notification["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("yard://notes/a.txt"))
    );
    yard.file("resources/new.resource.yaml", "uri: my://new\ntext: x\n");
    assert_eq!(listener.event().unwrap()["method"], "notifications/resources/list_changed");
}

#[test]
fn two_subscribers_of_one_file_are_each_notified_once() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1");
    let server = yard.serve();
    let filter = json!({"notifications": {"resourcesListChanged": true, "resourceSubscriptions": ["yard://notes/a.txt"]}});
    let mut listeners: Vec<Client> = (0..2).map(|_| listen(&server, filter.clone()).0).collect();
    yard.file("notes/a.txt", "22");
    for listener in &mut listeners {
        assert_eq!(listener.event().unwrap()["method"], "notifications/resources/updated");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    yard.file("resources/end.resource.yaml", "uri: my://end\ntext: x\n");
    for listener in &mut listeners {
        assert_eq!(listener.event().unwrap()["method"], "notifications/resources/list_changed", "sent twice");
    }
}
