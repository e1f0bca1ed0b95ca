//! Received texts on their way to the network: one block of bytes, and where each text lies in it. A burst of small
//! events costs one allocation and one reference count, not one per event.

use crate::budget::Charge;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Texts that arrived together, in order.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    block: Bytes,
    spans: Vec<Range<usize>>,
    /// What the block is charged to for as long as it is held.
    held: Option<Arc<Charge>>,
}

impl Texts {
    /// A block in which no text is marked yet.
    pub fn of(block: Bytes) -> Texts {
        Texts { block, spans: Vec::new(), held: None }
    }

    /// A block and where its texts lie; a range outside the block counts as an empty text.
    pub fn marked(block: Bytes, mut spans: Vec<Range<usize>>) -> Texts {
        spans.iter_mut().filter(|span| block.get((*span).clone()).is_none()).for_each(|span| *span = 0..0);
        Texts { block, spans, held: None }
    }

    /// The whole block is one text.
    pub fn one(text: Bytes) -> Texts {
        let whole = 0..text.len();
        Texts { block: text, spans: Vec::from([whole]), held: None }
    }

    /// Marks a text; a range outside the block counts as an empty text.
    pub fn mark(&mut self, range: Range<usize>) {
        self.spans.push(if self.block.get(range.clone()).is_some() { range } else { 0..0 });
    }

    /// Marks a text that lies in the block.
    pub fn mark_slice(&mut self, text: &[u8]) {
        let start = (text.as_ptr() as usize).wrapping_sub(self.block.as_ptr() as usize);
        self.mark(start..start.wrapping_add(text.len()));
    }

    /// The block.
    pub fn block(&self) -> &Bytes {
        &self.block
    }

    /// Whether somebody counts the block.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The same texts, counted by somebody else from now on.
    pub(crate) fn released(self) -> Texts {
        Texts { held: None, ..self }
    }

    /// The same texts, charged for as long as they are held.
    pub(crate) fn held_by(self, charge: Charge) -> Texts {
        Texts { held: Some(Arc::new(charge)), ..self }
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(ExactSizeIterator::len).sum()
    }

    /// The text at a place.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        self.spans.get(at).map(|span| self.block.get(span.clone()).unwrap_or_default())
    }

    /// The texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| self.block.get(span.clone()).unwrap_or_default())
    }

    /// The same texts in pieces of at most `max`, so that others have their turn in between.
    pub fn pieces(mut self, max: usize) -> Vec<Texts> {
        let mut pieces = Vec::with_capacity(self.spans.len().div_ceil(max.max(1)));
        while self.spans.len() > max.max(1) {
            let rest = self.spans.split_off(max.max(1));
            let spans = std::mem::replace(&mut self.spans, rest);
            pieces.push(Texts { block: self.block.clone(), spans, held: self.held.clone() });
        }
        pieces.push(self);
        pieces
    }
}

/// Texts from several places, copied together.
impl<T: AsRef<[u8]>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Texts {
        let (mut block, mut spans) = (Vec::new(), Vec::new());
        for text in texts {
            let start = block.len();
            block.extend_from_slice(text.as_ref());
            spans.push(start..block.len());
        }
        Texts { block: block.into(), spans, held: None }
    }
}

impl From<String> for Texts {
    fn from(text: String) -> Texts {
        Texts::one(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_order_and_their_bytes() {
        let mut texts = Texts::of(Bytes::from_static(b"[one,two,three]"));
        let block = texts.block().clone();
        texts.mark_slice(&block[1..4]);
        texts.mark(5..8);
        texts.mark_slice(&block[9..14]);
        texts.mark_slice(b"elsewhere");
        assert_eq!(texts.iter().collect::<Vec<_>>(), [&b"one"[..], b"two", b"three", b""]);
        assert_eq!((texts.len(), texts.bytes()), (4, 11));
        let pieces = texts.pieces(3);
        assert_eq!(pieces.iter().map(Texts::len).collect::<Vec<_>>(), [3, 1]);
        let outside = Texts::marked(Bytes::from_static(b"ab"), vec![0..1, 1..3, 1..2]);
        assert_eq!(outside.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"b"]);
        assert_eq!(outside.bytes(), 2);
        let gathered: Texts = ["a", "", "bc"].into_iter().collect();
        assert_eq!(gathered.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
    }
}
