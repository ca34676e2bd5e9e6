//! Results as text: strings as they are, everything else as JSON.

use toolyard_formats::json;
use toolyard_protocol::{Outcome, Payload, text::escape_control};

/// The output of `toolyard call`: JSON is indented, control characters are made visible.
pub fn result(outcome: &Outcome) -> String {
    if let Some(data) = outcome.data() {
        if let Ok(text) = serde_json::from_slice::<String>(data.bytes()) {
            return escape_control(&text);
        }
        return json::pretty(data.bytes())
            .unwrap_or_else(|_| String::from_utf8_lossy(data.bytes()).into_owned());
    }
    match outcome.content() {
        Some(content) => {
            text_blocks(content.bytes()).unwrap_or_else(|| json::pretty(content.bytes()).unwrap_or_default())
        }
        None => "null".to_owned(),
    }
}

/// One value with control characters made visible: a string as it is, everything else as JSON.
pub fn value(payload: &Payload) -> String {
    let text = serde_json::from_slice::<String>(payload.bytes());
    let text = text.unwrap_or_else(|_| String::from_utf8_lossy(payload.bytes()).into_owned());
    escape_control(&text)
}

/// The result for a program: text unchanged, everything else as raw JSON.
pub fn plain(outcome: &Outcome) -> String {
    let Some(payload) = outcome.data().or(outcome.content()) else { return String::new() };
    let whole = || String::from_utf8_lossy(payload.bytes()).into_owned();
    match outcome.data() {
        Some(data) => serde_json::from_slice::<String>(data.bytes()).unwrap_or_else(|_| whole()),
        None => texts(payload.bytes()).map_or_else(whole, |texts| texts.join("\n")),
    }
}

/// The texts of a content array, if all blocks are text.
fn text_blocks(content: &[u8]) -> Option<String> {
    texts(content).map(|texts| escape_control(&texts.join("\n")))
}

fn texts(content: &[u8]) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Block {
        #[serde(rename = "type")]
        kind: String,
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_slice(content).ok()?;
    blocks.into_iter().map(|block| block.text.filter(|_| block.kind == "text")).collect()
}
