//! Progress of long work: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One step of long work.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct ProgressStep {
    #[serde(default)]
    pub(crate) done: u64,
    #[serde(default)]
    pub(crate) total: Option<u64>,
    /// What is being worked on.
    #[serde(default)]
    pub(crate) what: String,
}

/// A bar that is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Counts bytes when `in_bytes`, else steps. Drawn only when `live`.
    pub(crate) fn new(live: bool, in_bytes: bool) -> ProgressLine {
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let count = if in_bytes { "{bytes}/{total_bytes} {bytes_per_sec}" } else { "{pos}/{len}" };
        if let Ok(style) = ProgressStyle::with_template(&format!("  {{bar:30}} {count} {{wide_msg}}")) {
            bar.set_style(style);
        }
        ProgressLine(bar)
    }

    pub(crate) fn show(&self, step: &ProgressStep) {
        if let Some(total) = step.total {
            self.0.set_length(total);
        }
        self.0.set_position(step.done);
        self.0.set_message(crate::render::safe_line(&step.what));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_sound_and_hidden_bars_stay_hidden() {
        for in_bytes in [true, false] {
            let progress = ProgressLine::new(false, in_bytes);
            progress.show(&ProgressStep { done: 1, total: Some(2), what: "x".into() });
            assert!(progress.0.is_hidden());
        }
    }
}
