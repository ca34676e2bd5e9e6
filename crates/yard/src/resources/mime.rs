//! MIME types of files: by the extension, else by the first bytes.

use bytes::Bytes;
use toolyard_protocol::Body;

/// The type by the file extension.
pub fn of_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    BY_NAME.iter().find(|(known, _)| *known == extension).map(|(_, mime)| *mime)
}

/// The type, and the content as text if it is text.
pub fn content(name: &str, bytes: Vec<u8>) -> (String, Body) {
    let promised = of_name(name).or_else(|| of_bytes(&bytes));
    if promised.is_some_and(|mime| !is_text(mime)) {
        return (promised.unwrap_or(UNKNOWN).to_owned(), Body::Blob(bytes.into()));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => (promised.unwrap_or("text/plain").to_owned(), Body::Text(text)),
        Ok(text) => (UNKNOWN.to_owned(), Body::Blob(text.into_bytes().into())),
        Err(error) => (UNKNOWN.to_owned(), Body::Blob(Bytes::from(error.into_bytes()))),
    }
}

/// The body for a declared type.
pub fn body(mime: &str, bytes: Vec<u8>) -> Body {
    if !is_text(mime) {
        return Body::Blob(bytes.into());
    }
    String::from_utf8(bytes).map_or_else(|error| Body::Blob(error.into_bytes().into()), Body::Text)
}

const UNKNOWN: &str = "application/octet-stream";

fn is_text(mime: &str) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    mime.starts_with("text/")
        || mime.ends_with("+json")
        || mime.ends_with("+xml")
        || matches!(
            mime,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/toml"
                | "application/javascript"
                | "application/sql"
                | "application/x-sh"
                | "application/x-ndjson"
        )
}

fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    let riff = |kind: &[u8]| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(kind);
    if riff(b"WAVE") {
        return Some("audio/wav");
    }
    if riff(b"WEBP") {
        return Some("image/webp");
    }
    BY_BYTES.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, mime)| *mime)
}

const BY_BYTES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"MThd", "audio/midi"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
];

const BY_NAME: &[(&str, &str)] = &[
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("ndjson", "application/x-ndjson"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("ts", "text/x-typescript"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("c", "text/x-c"),
    ("h", "text/x-c"),
    ("cpp", "text/x-c++"),
    ("go", "text/x-go"),
    ("java", "text/x-java"),
    ("php", "text/x-php"),
    ("rb", "text/x-ruby"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
    ("bmp", "image/bmp"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("bin", "application/octet-stream"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_comes_first_then_the_bytes_then_the_text() {
        let text = |text: &str| Body::Text(text.to_owned());
        let blob = |bytes: &[u8]| Body::Blob(Bytes::copy_from_slice(bytes));
        for (name, bytes, mime, body) in [
            ("a.md", &b"# x"[..], "text/markdown", text("# x")),
            ("a.JSON", b"{}", "application/json", text("{}")),
            ("a.png", b"no image", "image/png", blob(b"no image")),
            ("a", b"\x89PNG\r\n\x1a\nrest", "image/png", blob(b"\x89PNG\r\n\x1a\nrest")),
            ("a", b"RIFF\0\0\0\0WAVE", "audio/wav", blob(b"RIFF\0\0\0\0WAVE")),
            ("README", "gr\u{fc}n".as_bytes(), "text/plain", text("gr\u{fc}n")),
            ("a.txt", b"\xff\xfe", "application/octet-stream", blob(b"\xff\xfe")),
            ("a.txt", b"a\0b", "application/octet-stream", blob(b"a\0b")),
            ("empty", b"", "text/plain", text("")),
        ] {
            assert_eq!(content(name, bytes.to_vec()), (mime.to_owned(), body), "{name}");
        }
    }
}
