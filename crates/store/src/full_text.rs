//! Tokenizer and queries of full text search: one rule for every store, so that all find the same.
//!
//! A word is a run of letters and digits (Unicode `Alphabetic` or `Numeric`). Comparison ignores case
//! (Unicode simple lower case mapping; the final sigma equals the other one), but not accents. There is no
//! normalization: a letter with a combining accent differs from the precomposed letter. Only the first 100
//! characters of a word are significant.

use std::collections::BTreeSet;
use toolyard_engine::stores::StoreError;

/// Significant characters of a word.
pub const MAX_WORD: usize = 100;
pub const MAX_QUERY_BYTES: usize = 4096;
pub const MAX_QUERY_WORDS: usize = 32;

/// The distinct words of all texts.
pub fn tokenize<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let of_one = |text: &'a str| text.split(|c: char| !c.is_alphanumeric());
    texts.into_iter().flat_map(of_one).filter(|run| !run.is_empty()).map(fold).collect()
}

/// A parsed query: a text must contain every term; a term followed by `*` matches as a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextQuery(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    word: String,
    is_prefix: bool,
}

impl TextQuery {
    /// Everything but letters, digits and a `*` directly after a word is a separator.
    pub fn parse(query: &str) -> Result<TextQuery, StoreError> {
        if query.len() > MAX_QUERY_BYTES {
            let message = format!("the search text has {} bytes; {MAX_QUERY_BYTES} are allowed", query.len());
            return Err(StoreError::Invalid(message));
        }
        let mut terms = Vec::new();
        let mut rest = query;
        while let Some(start) = rest.find(char::is_alphanumeric) {
            rest = &rest[start..];
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            terms.push(Term { word: fold(word), is_prefix: after.starts_with('*') });
            rest = after;
        }
        match terms.len() {
            0 => Err(StoreError::Invalid("the search text has no word: enter a letter or a digit".into())),
            1..=MAX_QUERY_WORDS => Ok(TextQuery(terms)),
            many => {
                let message = format!("the search text has {many} words; {MAX_QUERY_WORDS} are allowed");
                Err(StoreError::Invalid(message))
            }
        }
    }

    /// `present`: the words of a text, from [`tokenize`].
    #[cfg(any(test, feature = "testing"))]
    pub fn matches(&self, present: &BTreeSet<String>) -> bool {
        self.0.iter().all(|term| match term.is_prefix {
            true => present.range(term.word.clone()..).next().is_some_and(|w| w.starts_with(&term.word)),
            false => present.contains(&term.word),
        })
    }

    /// The query in SQLite's FTS5 syntax. Words contain only letters and digits, so quoting them is safe.
    pub fn to_fts(&self) -> String {
        let quoted = |term: &Term| format!("\"{}\"{}", term.word, if term.is_prefix { "*" } else { "" });
        self.0.iter().map(quoted).collect::<Vec<_>>().join(" AND ")
    }
}

fn fold(word: &str) -> String {
    let lower = |c: char| match c {
        'ς' => 'σ',
        // Only `İ` lower-cases to several characters; its simple mapping is the first of them.
        c => c.to_lowercase().next().unwrap_or(c),
    };
    word.chars().take(MAX_WORD).map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str, text: &str) -> bool {
        TextQuery::parse(query).unwrap().matches(&tokenize([text]))
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_compared_without_case() {
        let cases = [
            ("groove", "What a GROOVE!", true),
            ("groove", "grooves", false),
            ("groo*", "grooves", true),
            ("groo *", "grooves", false),
            ("a*b", "b abc", true),
            ("b a", "a-b", true),
            ("ab", "a-b", false),
            ("take5", "TAKE5", true),
            ("take", "TAKE5", false),
            ("ÄRGER", "ärger", true),
            ("arger", "ärger", false),
            ("ΟΔΟΣ", "οδος", true),
            ("istanbul", "İSTANBUL", true),
            ("straße", "STRASSE", false),
            ("中文", "这是 中文。", true),
            ("\"quoted\" OR nothing", "quoted or nothing", true),
            ("quoted OR missing", "quoted", false),
            ("message:x", "x", false),
        ];
        for (query, text, expected) in cases {
            assert_eq!(found(query, text), expected, "{query:?} in {text:?}");
        }
    }

    #[test]
    fn of_a_long_word_the_beginning_counts() {
        let long = "x".repeat(MAX_WORD);
        assert!(found(&format!("{long}y"), &format!("{long}z")));
        assert!(!found(&long[1..], &long));
    }

    #[test]
    fn a_query_without_words_or_with_too_many_is_refused() {
        for bad in ["", " *", "!?", &"a ".repeat(MAX_QUERY_WORDS + 1), &"a".repeat(MAX_QUERY_BYTES + 1)] {
            assert!(matches!(TextQuery::parse(bad), Err(StoreError::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn folding_never_leaves_letters_and_digits() {
        for c in (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| c.is_alphanumeric()) {
            let folded = fold(&c.to_string());
            assert!(folded.chars().all(char::is_alphanumeric), "{c:?} became {folded:?}");
            assert_eq!(fold(&folded), folded, "{c:?}");
        }
    }
}
