//! Text helpers: JSON string literals, visible control characters, hex, and the nearest match of a name.

/// Appends `text` as a JSON string literal, quotes included.
pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, after) = rest.split_at(unescaped_prefix_len(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = after.split_first() else { break };
        rest = after;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.push(b'"');
}

/// The number of bytes before the first that a JSON string must escape: quote, backslash, control character.
pub fn unescaped_prefix_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES * 0x80;
    let (words, _) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // Sets the top bit of each zero byte; bits above the first zero byte may be wrong.
        let zeros = |masked: u64| masked.wrapping_sub(ONES) & !masked;
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let slashes = zeros(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (quotes | slashes | controls) & TOPS;
        if found != 0 {
            return i * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let from = words.len() * 8;
    let special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    bytes[from..].iter().position(special).map_or(bytes.len(), |at| from + at)
}

/// Makes the output of a child process safe to show: control characters (terminal escapes, direction marks)
/// become visible, newlines and tabs stay.
pub fn escape_control(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || c == '\t' || !is_hidden(c) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// Invisible characters that change how a terminal or a bidirectional layout shows the text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Appends two lower-case hex digits for each byte.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend(bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]));
}

/// The bytes behind hex digits of either case; `None` for anything else.
pub fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// The candidate nearest to `word`, if it is near enough to be a suggestion.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(edit_distance, _)| *edit_distance <= limit)
        .min_by_key(|(edit_distance, _)| *edit_distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance (insert, delete, replace, transpose) between two short words.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let width = b.len() + 1;
    let mut rows = vec![0usize; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..width {
            rows[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[(i - 1) * width + j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let step = (rows[(i - 1) * width + j] + 1).min(rows[i * width + j - 1] + 1).min(replace);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    step.min(rows[(i - 2) * width + j - 2] + 1)
                } else {
                    step
                }
            };
        }
    }
    rows[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_escape_exactly_what_json_demands() {
        let mut out = Vec::new();
        push_json_string(&mut out, "a\"b\\c\nd\u{1}é");
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\"b\\c\nd\u0001é""#);
    }

    #[test]
    fn the_first_special_byte_is_found_wherever_it_stands() {
        let special = [0, 1, 0x1f, b'"', b'\\'];
        for plain in [0x20, 0x21, b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
            for length in 0..27 {
                let bytes = vec![plain; length];
                assert_eq!(unescaped_prefix_len(&bytes), length, "{plain:#x}");
                for (at, byte) in (0..length).flat_map(|at| special.map(|byte| (at, byte))) {
                    let mut bytes = bytes.clone();
                    bytes[at] = byte;
                    assert_eq!(unescaped_prefix_len(&bytes), at, "{byte:#x} among {plain:#x}");
                    for (after, second) in (at + 1..length).flat_map(|at| special.map(|byte| (at, byte))) {
                        let mut bytes = bytes.clone();
                        bytes[after] = second;
                        assert_eq!(unescaped_prefix_len(&bytes), at);
                    }
                }
            }
        }
    }

    #[test]
    fn terminal_escapes_and_direction_marks_become_visible() {
        assert_eq!(escape_control("ok\n\u{1b}[31mred\u{202e}"), "ok\n\\u{1b}[31mred\\u{202e}");
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let fields = ["timeoutMs", "limits", "entry"];
        assert_eq!(nearest("timeoutms", fields), Some("timeoutMs"));
        assert_eq!(nearest("limit", fields), Some("limits"));
        assert_eq!(nearest("etnry", fields), Some("entry"));
        assert_eq!(nearest("colour", fields), None);
    }
}
