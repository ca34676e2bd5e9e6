//! URIs of files in roots: `yard://ROOT/path/of/file`, percent-encoded.
//!
//! A valid URI can only name a file below its root: `..`, absolute paths and hidden names are refused, and
//! decoding happens once.

use std::borrow::Cow;
use std::fmt;
use toolyard_formats::percent::{SEGMENT, decode, encode};
use toolyard_protocol::{Error, ErrorKind, text::escape_control};

pub const SCHEME: &str = "yard://";

/// One file of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUri {
    pub root: String,
    pub path: FilePath,
}

/// The names from a root to a file: at least one, each safe to pass to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Vec<String>);

const MAX_URI: usize = 8192;
const MAX_PATH: usize = 4000;
const MAX_NAME: usize = 255;
/// Folders below a root.
pub const MAX_DEPTH: usize = 64;

impl FileUri {
    /// `None` when the URI has another scheme.
    pub fn parse(uri: &str) -> Option<Result<FileUri, Error>> {
        let rest = uri.strip_prefix(SCHEME)?;
        Some(FileUri::parse_rest(rest).map_err(|what| {
            let shown: String = escape_control(uri).chars().take(120).collect();
            Error::new(ErrorKind::InvalidInput, format!("'{shown}' is not a valid file URI: {what}"))
                .hint("write yard://ROOT/path/of/file; 'resources/list' shows the available files")
        }))
    }

    fn parse_rest(rest: &str) -> Result<FileUri, &'static str> {
        if rest.len() > MAX_URI {
            return Err("it is too long");
        }
        let (root, path) = rest.split_once('/').ok_or("it names no file")?;
        if !is_root_name(root) {
            return Err("the part after 'yard://' is not the name of a root");
        }
        if path.contains(['?', '#', '\\']) {
            return Err("'?', '#' and '\\' are not allowed");
        }
        Ok(FileUri { root: root.to_owned(), path: FilePath::decode(path)? })
    }
}

impl fmt::Display for FileUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.root, self.path.encoded())
    }
}

impl FilePath {
    /// From the path of a URI.
    pub fn decode(path: &str) -> Result<FilePath, &'static str> {
        // Split first: an encoded slash is part of a name, and refused there.
        let names =
            path.split('/').map(|name| decode(name).ok_or("it is not properly percent-encoded UTF-8"));
        FilePath::new(names.collect::<Result<_, _>>()?)
    }

    /// From a path as people write it, `docs/a.md`.
    pub fn plain(path: &str) -> Result<FilePath, &'static str> {
        FilePath::new(path.split('/').map(str::to_owned).collect())
    }

    pub fn new(names: Vec<String>) -> Result<FilePath, &'static str> {
        for name in &names {
            check_name(name)?;
        }
        if names.is_empty() || names.len() > MAX_DEPTH {
            return Err("it has no name, or too many folders");
        }
        if names.iter().map(|name| name.len() + 1).sum::<usize>() > MAX_PATH {
            return Err("the path is too long");
        }
        Ok(FilePath(names))
    }

    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The parent folders, and the file's own name.
    pub fn split(&self) -> (&[String], &str) {
        self.0.split_last().map_or((&[], ""), |(last, folders)| (folders, last))
    }

    pub fn encoded(&self) -> String {
        let names: Vec<Cow<str>> = self.0.iter().map(|name| encode(name, SEGMENT).into()).collect();
        names.join("/")
    }
}

/// Whether a name is allowed in a path.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a name in the path is empty");
    }
    if name.starts_with('.') {
        return Err("names that begin with '.' are not allowed");
    }
    if name.len() > MAX_NAME {
        return Err("a name in the path is too long");
    }
    if name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        return Err("a name in the path contains a slash, a backslash or a control character");
    }
    if decode(name).is_none_or(|again| again != name) {
        return Err("a name in the path is percent-encoded twice");
    }
    Ok(())
}

/// Lower case only, so that case cannot matter in this part of a URI.
pub fn is_root_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_names_a_file_below_its_root_or_nothing() {
        let address = FileUri::parse("yard://notes/a%20b/c.txt").unwrap().unwrap();
        assert_eq!(
            (address.root.as_str(), address.path.names()),
            ("notes", &["a b".into(), "c.txt".into()][..])
        );
        assert_eq!(address.to_string(), "yard://notes/a%20b/c.txt");
        for other in
            ["file:///etc/passwd", "YARD://n/a", "yard:/n/a", "yard:n/a", " yard://n/a", "http://n/a"]
        {
            assert!(FileUri::parse(other).is_none(), "{other}");
        }
        for bad in [
            "yard://",
            "yard:///etc/passwd",
            "yard://n",
            "yard://n/",
            "yard://n//a",
            "yard://n/a/",
            "yard://n/..",
            "yard://n/../x",
            "yard://n/a/../x",
            "yard://n/%2e%2e/x",
            "yard://n/.%2e/x",
            "yard://n/%2E%2E%2Fx",
            "yard://n/a%2fb",
            "yard://n/a\\b",
            "yard://n/a%5cb",
            "yard://n/a%00",
            "yard://n/a\0",
            "yard://n/.",
            "yard://n/.env",
            "yard://n/a/.git/config",
            "yard://n/a?b",
            "yard://n/a#b",
            "yard://N/a",
            "yard://n:80/a",
            "yard://u@n/a",
            "yard://n%2f..%2f/a",
            "yard://../a",
            "yard://n/%",
            "yard://n/%ff",
            "yard://n/a%0a",
            "yard://[::1]/a",
            "yard://n/%c0%ae%c0%ae/x",
            "yard://n/%252e%252e/x",
            "yard://n/%25252e/x",
            "yard://n/100%25",
        ] {
            let error = FileUri::parse(bad).unwrap().expect_err(bad);
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{bad}");
        }
        assert!(FileUri::parse(&format!("yard://n/{}", "a".repeat(256))).unwrap().is_err());
        assert!(FileUri::parse(&format!("yard://n/{}a", "a/".repeat(64))).unwrap().is_err());
        assert!(FileUri::parse(&format!("yard://n/{}", "a".repeat(10_000))).unwrap().is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn no_text_leads_out(text in "(yard://)?[a-z/]{0,8}(\\.|%2e|%2E|%252e|/|\\\\|%5c|%2f|%00|\\PC|[a-z%?#@:]){0,24}") {
            if let Some(Ok(address)) = FileUri::parse(&text) {
                for name in address.path.names() {
                    prop_assert!(!name.is_empty() && !name.starts_with('.'), "{}", text);
                    prop_assert!(!name.contains(['/', '\\', '\0']), "{}", text);
                }
                prop_assert_eq!(FileUri::parse(&address.to_string()), Some(Ok(address)), "one spelling: {}", text);
            }
        }

        #[test]
        fn every_name_that_may_be_there_has_an_address(names in proptest::collection::vec("\\PC{1,12}", 1..5)) {
            if let Ok(path) = FilePath::new(names) {
                let address = FileUri { root: "n".into(), path };
                prop_assert_eq!(FileUri::parse(&address.to_string()), Some(Ok(address)));
            }
        }
    }
}
