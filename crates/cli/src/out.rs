//! Standard output and standard error: data on the one, talk on the other.

use crate::exit::CliError;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Where a command writes. Tests read what was written.
pub(crate) struct Out {
    data: Box<dyn Write>,
    talk: Box<dyn Write>,
    /// JSON instead of text for people.
    pub(crate) json: bool,
    /// Colours on data.
    pub(crate) paint: Paint,
    /// Whether progress may be drawn.
    pub(crate) live: bool,
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("json", &self.json).finish_non_exhaustive()
    }
}

impl Out {
    /// The process's own streams.
    pub(crate) fn of_process(json: bool, env: &crate::env::Env) -> Out {
        let plain = env.get("NO_COLOR").is_some() || env.get("TERM") == Some("dumb");
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let paint = Paint(stdout.is_terminal() && !plain && !json);
        let live = stderr.is_terminal() && !json && env.get("TERM") != Some("dumb");
        Out { paint, live, data: Box::new(stdout.lock()), talk: Box::new(stderr), json }
    }

    /// Text for people, on standard output; ends with a line break.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.data.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            self.data.write_all(b"\n")?;
        }
        self.data.flush()?;
        Ok(())
    }

    /// Bytes as they are, on standard output.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.data.write_all(bytes)?;
        self.data.flush()?;
        Ok(())
    }

    /// One line of JSON, on standard output.
    pub(crate) fn line(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let mut text = serde_json::to_string(value).map_err(|e| CliError::internal(e.to_string()))?;
        text.push('\n');
        self.bytes(text.as_bytes())
    }

    /// The value as JSON, or its text for people.
    pub(crate) fn show<T: Serialize>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T, Paint) -> String,
    ) -> Result<(), CliError> {
        if self.json {
            return self.line(value);
        }
        let text = text(value, self.paint);
        if text.is_empty() { Ok(()) } else { self.text(&text) }
    }

    /// Talk, on standard error. Nothing depends on it, so a closed stream is no failure.
    pub(crate) fn say(&mut self, text: &str) {
        writeln!(self.talk, "{text}").ok();
    }

    /// Talk that a program does not want to hear.
    pub(crate) fn hint(&mut self, text: &str) {
        if !self.json {
            self.say(text);
        }
    }
}

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What was written so far.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Page(Rc<RefCell<Vec<u8>>>);

    impl Page {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Output into memory: data and talk.
    pub(crate) fn out(json: bool) -> (Out, Page, Page) {
        let (data, talk) = (Page::default(), Page::default());
        let out =
            Out { data: Box::new(data.clone()), talk: Box::new(talk.clone()), json, paint: Paint(false), live: false };
        (out, data, talk)
    }
}
