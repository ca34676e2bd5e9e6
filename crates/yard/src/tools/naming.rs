//! From a file's `id` and folder to the canonical and the exposed name.

use toolyard_protocol::{ExposedName, ToolName};

/// `markdown` in `tools/example/` is `example.markdown`, exposed as `markdown`.
pub fn names(id: &str, folder: &str) -> Result<(ToolName, ExposedName), String> {
    let plain = canonical_text(id);
    let canonical = if plain.contains('.') { plain } else { format!("{}.{plain}", canonical_text(folder)) };
    let name = ToolName::parse(&canonical).map_err(|error| format!("'id' {id:?} is {error}"))?;
    let exposed = ExposedName::parse(&shortened(id)).map_err(|error| format!("'id' {id:?} is {error}"))?;
    Ok((name, exposed))
}

/// Canonical names have no upper case and no dashes, but ids may.
fn canonical_text(text: &str) -> String {
    text.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// A name over 64 characters is truncated and gets a hash of the whole, so that it stays stable and unique.
fn shortened(id: &str) -> String {
    if id.len() <= ExposedName::MAX || !id.is_ascii() {
        return id.to_owned();
    }
    let hash = blake3::hash(id.as_bytes()).to_hex();
    format!("{}_{}", &id[..ExposedName::MAX - 7], &hash[..6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_module_unless_the_id_has_one() {
        for (id, folder, canonical, exposed) in [
            ("markdown", "example", "example.markdown", "markdown"),
            ("markdown", "tools", "tools.markdown", "markdown"),
            ("text.markdown", "example", "text.markdown", "text.markdown"),
            ("HTTP-Echo", "My-Tools", "my_tools.http_echo", "HTTP-Echo"),
        ] {
            let (name, shown) = names(id, folder).unwrap();
            assert_eq!((name.as_str(), shown.as_str()), (canonical, exposed));
        }
        for bad in ["", "a b", "a..b", "ä", "a/b"] {
            assert!(names(bad, "tools").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn long_names_are_cut_but_stay_apart() {
        let (a, b) = ("a".repeat(80) + "1", "a".repeat(80) + "2");
        let exposed = |id: &str| names(id, "tools").unwrap().1.as_str().to_owned();
        assert_eq!(exposed(&a).len(), 64);
        assert_ne!(exposed(&a), exposed(&b));
        assert_eq!(exposed(&a), exposed(&a));
    }
}
