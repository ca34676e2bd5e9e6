//! A progress bar for jobs, shown on a terminal only.

use crate::output;
use toolyard_protocol::text::escape_control;

const WIDTH: usize = 24;

/// Cleared when dropped.
pub struct Bar {
    shown: bool,
}

impl Bar {
    pub fn start() -> Bar {
        Bar { shown: output::stderr_is_terminal() }
    }

    /// Without a percentage only the text is shown.
    pub fn show(&self, percent: Option<f64>, text: &str) {
        if self.shown {
            output::rewrite(&line(percent, text));
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

fn line(percent: Option<f64>, text: &str) -> String {
    let text: String = escape_control(text).chars().take(60).collect();
    let Some(percent) = percent else { return text };
    let full = ((percent.clamp(0.0, 100.0) / 100.0) * WIDTH as f64).round() as usize;
    format!("[{}{}] {percent:3.0} %  {text}", "█".repeat(full), "·".repeat(WIDTH - full))
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
