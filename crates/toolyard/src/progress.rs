//! A bar for long work, on a terminal only.

use crate::output;
use toolyard_protocol::text::escape_control;

const WIDTH: usize = 24;

/// Wiped when dropped.
pub struct Bar {
    shown: bool,
}

impl Bar {
    pub fn start() -> Bar {
        Bar { shown: output::has_terminal() }
    }

    /// Without a percentage there is nothing to fill, and the words stand alone.
    pub fn show(&self, percent: Option<f64>, words: &str) {
        if self.shown {
            output::rewrite(&line(percent, words));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown {
            output::rewrite("");
        }
    }
}

fn line(percent: Option<f64>, words: &str) -> String {
    let words: String = escape_control(words).chars().take(60).collect();
    let Some(percent) = percent else { return words };
    let full = ((percent.clamp(0.0, 100.0) / 100.0) * WIDTH as f64).round() as usize;
    format!("[{}{}] {percent:3.0} %  {words}", "█".repeat(full), "·".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_with_the_work_and_show_no_control_characters() {
        assert_eq!(line(Some(50.0), "half"), format!("[{}{}]  50 %  half", "█".repeat(12), "·".repeat(12)));
        assert_eq!(line(Some(100.0), ""), format!("[{}] 100 %  ", "█".repeat(24)));
        assert!(!line(None, "a\x1b[2Jb").contains('\x1b'));
    }
}
