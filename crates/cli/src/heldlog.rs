//! The log while a node starts: lines gather until the start screen is shown, so that the screen comes first.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes held at most; a start that has more to say lets its log go before the screen.
const HELD_BYTES_MAX: usize = 256 << 10;

/// Standard error, held back until [`HeldLog::release`] or until the last one who could release it is gone.
#[derive(Debug)]
pub(crate) struct HeldLog<W: Write = io::Stderr> {
    shared: Arc<Mutex<Held<W>>>,
}

#[derive(Debug)]
struct Held<W: Write> {
    /// None once it was released.
    lines: Option<Vec<u8>>,
    out: W,
}

/// One line on its way.
#[derive(Debug)]
pub(crate) struct HeldLine<W: Write> {
    log: HeldLog<W>,
}

impl Default for HeldLog {
    fn default() -> HeldLog {
        HeldLog::to(io::stderr())
    }
}

impl<W: Write> Clone for HeldLog<W> {
    fn clone(&self) -> HeldLog<W> {
        HeldLog { shared: self.shared.clone() }
    }
}

impl<W: Write> HeldLog<W> {
    fn to(out: W) -> HeldLog<W> {
        HeldLog { shared: Arc::new(Mutex::new(Held { lines: Some(Vec::new()), out })) }
    }

    /// Where the next line goes.
    pub(crate) fn line(&self) -> HeldLine<W> {
        HeldLine { log: self.clone() }
    }

    /// Writes what was held back; from now on lines go out as they come.
    pub(crate) fn release(&self) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).release();
    }
}

impl<W: Write> Held<W> {
    fn release(&mut self) {
        if let Some(lines) = self.lines.take() {
            // Nobody is there to be told that the log cannot be written.
            let _ = self.out.write_all(&lines);
        }
    }
}

impl<W: Write> Write for HeldLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.log.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut held.lines {
            Some(lines) if lines.len().saturating_add(bytes.len()) <= HELD_BYTES_MAX => {
                lines.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => {
                held.release();
                held.out.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.shared.lock().unwrap_or_else(PoisonError::into_inner).out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(log: &HeldLog<Vec<u8>>) -> String {
        String::from_utf8(log.shared.lock().unwrap().out.clone()).unwrap()
    }

    #[test]
    fn lines_wait_for_the_screen_and_then_come_in_order() {
        let log = HeldLog::to(Vec::new());
        log.line().write_all(b"one\n").unwrap();
        log.line().write_all(b"two\n").unwrap();
        assert_eq!(said(&log), "");
        log.release();
        log.line().write_all(b"three\n").unwrap();
        log.release();
        assert_eq!(said(&log), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_start_with_very_much_to_say_is_not_held_for_ever() {
        let log = HeldLog::to(Vec::new());
        let line = vec![b'x'; HELD_BYTES_MAX];
        log.line().write_all(&line).unwrap();
        assert_eq!(said(&log), "");
        log.line().write_all(b"y").unwrap();
        assert_eq!(said(&log).len(), HELD_BYTES_MAX + 1);
    }
}
