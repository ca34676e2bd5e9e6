//! Tests of redaction: which encodings are found, and that nothing else changes.

use super::*;
use proptest::prelude::*;

const KEY: &str = "p@ss w\u{f6}rd/\"42\"?";

fn hidden() -> SecretRedactor {
    SecretRedactor::new([("key", KEY), ("pin", "271828"), ("long", "correct horse battery staple")]).unwrap()
}

/// An encoder that shares no code with the implementation.
fn base64(bytes: &[u8], url: bool, pad: bool) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').collect();
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for i in 0..=chunk.len() {
            let digit = (number >> (18 - 6 * i) & 63) as usize;
            let special = if url { ['-', '_'] } else { ['+', '/'] };
            out.push(alphabet.get(digit).copied().unwrap_or_else(|| special[digit - 62]));
        }
        if pad {
            out.push_str(&"="[..1].repeat(3 - chunk.len()));
        }
    }
    out
}

/// With padding; it shares no code with the implementation either.
fn base32(bytes: &[u8]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('2'..='7').collect();
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let number =
            chunk.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte)) << (8 * (5 - chunk.len()));
        let digits = (chunk.len() * 8).div_ceil(5);
        out.extend((0..digits).map(|i| alphabet[(number >> (35 - 5 * i) & 31) as usize]));
        out.push_str(&"=".repeat(8 - digits));
    }
    out
}

#[test]
fn a_secret_is_found_in_every_common_encoding() {
    let hex: String = KEY.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = KEY.bytes().map(|b| format!("%{b:02X}")).collect();
    let json = serde_json::to_string(KEY).unwrap();
    let inner = &json[1..json.len() - 1];
    let twice = serde_json::to_string(&json).unwrap();
    let html = "p@ss&#32;w&#xf6;rd&#x2F;&quot;42&#34;?";
    let utf16 = |bytes: fn(u16) -> [u8; 2]| KEY.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let (little, big) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
    for (text, expected) in [
        (KEY.to_owned(), "[secret key]"),
        (KEY.to_ascii_uppercase(), "[secret key]"),
        ("Correct Horse BATTERY staple".to_owned(), "[secret long]"),
        (html.to_owned(), "[secret key]"),
        ("x2\u{0}7\u{0}1\u{0}8\u{0}2\u{0}8\u{0}".to_owned(), "x[secret pin]"),
        (base64(&little, false, true), "[secret key]"),
        (base64(&big, true, false), "[secret key]"),
        (base32(KEY.as_bytes()), "[secret key]"),
        (base32(&little).to_lowercase(), "[secret key]"),
        (little.iter().map(|b| format!("{b:02X}")).collect(), "[secret key]"),
        (hex.to_uppercase(), "[secret key]"),
        (hex, "[secret key]"),
        (percent.to_lowercase(), "[secret key]"),
        (percent, "[secret key]"),
        ("p%40ss%20w%C3%B6rd/%2242%22?".to_owned(), "[secret key]"),
        ("p%40ss+w%C3%B6rd%2F%2242%22%3F".to_owned(), "[secret key]"),
        ("correct+horse+battery+staple".to_owned(), "[secret long]"),
        (inner.to_owned(), "[secret key]"),
        (r#"p@ss w\u00f6rd\/\"42\"?"#.to_owned(), "[secret key]"),
        (format!("a{KEY}{KEY}b"), "a[secret key][secret key]b"),
        ("x271828x".to_owned(), "x[secret pin]x"),
    ] {
        assert_eq!(hidden().text(&text).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(hidden().text(&twice).unwrap(), r#""\"[secret key]\"""#);
    for ordinary in ["", "password", "p@ss", "correct horse", "100 %", r"a\b", "27182", "a+b%20c"] {
        assert_eq!(hidden().text(ordinary), None, "{ordinary}");
    }
}

proptest! {
    #[test]
    fn base64_is_found_whatever_stands_around_it(
        value in ".{6,40}", before in prop::collection::vec(any::<u8>(), 0..9),
        after in prop::collection::vec(any::<u8>(), 0..9), url: bool, pad: bool
    ) {
        let hidden = SecretRedactor::new([("s", value.as_str())]).unwrap();
        let whole = [before.as_slice(), value.as_bytes(), after.as_slice()].concat();
        let shown = hidden.text(&base64(&whole, url, pad)).expect("found");
        // Only digits of the surrounding bytes remain.
        let left = shown.replace("[secret s]", "").replace('=', "").len();
        prop_assert!(left <= (before.len() * 8).div_ceil(6) + (after.len() * 8).div_ceil(6), "{shown}");
    }

    #[test]
    fn base32_is_found_whatever_stands_around_it(
        value in ".{6,40}", before in prop::collection::vec(any::<u8>(), 0..9),
        after in prop::collection::vec(any::<u8>(), 0..9)
    ) {
        let hidden = SecretRedactor::new([("s", value.as_str())]).unwrap();
        let shown = hidden.text(&base32(&[before.as_slice(), value.as_bytes(), after.as_slice()].concat())).expect("found");
        let left = shown.replace("[secret s]", "").replace('=', "").len();
        prop_assert!(left <= (before.len() * 8).div_ceil(5) + (after.len() * 8).div_ceil(5), "{shown}");
    }

    #[test]
    fn json_stays_json_and_holds_no_secret(value in "[ -~\u{e4}\n]{6,20}", other in ".{0,20}", ascii: bool) {
        let hidden = SecretRedactor::new([("s", value.as_str())]).unwrap();
        let document = serde_json::json!({ "a": [format!("{other}{value}"), 1], (value.clone()): null, "b": other });
        let mut text = document.to_string();
        if ascii {
            text = text.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }).collect();
        }
        let shown = hidden.payload(&Payload::json(text)).expect("found");
        let shown: serde_json::Value = serde_json::from_slice(shown.bytes()).unwrap();
        if let Some(first) = shown["a"][0].as_str() {
            prop_assert!(!first.replace("[secret s]", "").contains(&value));
            prop_assert!(shown["[secret s]"].is_null());
        }
    }

    #[test]
    fn without_a_secret_nothing_changes(text in ".{0,60}") {
        let hidden = SecretRedactor::new([("s", "\u{1}never in there\u{2}")]).unwrap();
        prop_assert_eq!(hidden.text(&text), None);
        let document = serde_json::json!([text]).to_string();
        prop_assert!(hidden.payload(&Payload::json(document)).is_none());
    }
}

fn json(text: &str) -> Option<String> {
    let hidden = hidden().payload(&Payload::json(text.to_owned()))?;
    Some(String::from_utf8(hidden.bytes().to_vec()).unwrap())
}

#[test]
fn values_keys_and_numbers_of_a_document_are_hidden() {
    for (given, expected) in [
        (r#"{"n": 271828, "m": [1, 3271828.5]}"#, r#"{"n": "[secret pin]", "m": [1, "[secret pin]"]}"#),
        (r#"{"271828": 1, "x271828": {"y":2}}"#, r#"{"[secret pin]": 1, "x[secret pin]#2": {"y":2}}"#),
        (r#""\u0032\u0037\u00318\u0032\u0038""#, r#""[secret pin]""#),
        (r#"["{\"inner\":\"p@ss w\\u00f6rd/\\\"42\\\"?\"}"]"#, r#"["{\"inner\":\"[secret key]\"}"]"#),
    ] {
        assert_eq!(json(given).as_deref(), Some(expected), "{given}");
    }
    for ordinary in [r#"{"a":"100 %\n"}"#, "[1,2]", r#""\u0041""#] {
        assert_eq!(json(ordinary), None);
    }
    let account = r#"{"type":"account","key":"abcdef"}"#;
    let hidden = SecretRedactor::new([("account", account)]).unwrap();
    let shown = hidden.payload(&Payload::json(format!("[{account}]"))).unwrap();
    assert_eq!(&shown.bytes()[..], b"\"[secret account]\"", "a secret that is JSON itself");
}

#[test]
fn lines_of_a_key_file_and_pieces_at_a_cut_are_hidden() {
    let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n";
    let hidden = SecretRedactor::new([("pem", pem)]).unwrap();
    assert_eq!(hidden.text("x MIIEvQIBADANBgkqhkiG y").unwrap(), "x [secret pem] y");
    assert_eq!(hidden.text("-----BEGIN KEY-----"), None);
    let hidden = self::hidden();
    let cut = format!("horse battery staple: {}", "x".repeat(2000));
    assert!(hidden.tail(&cut).unwrap().starts_with("[secret long]: xxx"));
    assert_eq!(hidden.tail("staple: short texts were not cut"), None);
}

#[test]
fn overlapping_secrets_leave_nothing_of_either() {
    let hidden = SecretRedactor::new([("a", "abcdefgh"), ("b", "efghijkl"), ("c", "cdefgh")]).unwrap();
    assert_eq!(hidden.text("-abcdefghijkl-").unwrap(), "-[secret a]-");
    assert_eq!(hidden.text("abcdefgh efghijkl").unwrap(), "[secret a] [secret b]");
    let many = SecretRedactor::new([("a", "aaaaaa")]).unwrap();
    assert_eq!(many.text(&"a".repeat(100_000)).unwrap(), "[secret a]");
}

#[test]
fn no_secrets_hide_nothing_and_short_ones_are_none() {
    let none = SecretRedactor::new([("tiny", "abcde")]).unwrap();
    assert!(none.is_empty());
    assert_eq!(none.text("abcde"), None);
}
