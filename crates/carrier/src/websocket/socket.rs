//! The two halves of an upgraded connection. A bare TCP socket can be written to by whoever has something for it,
//! without waiting; anything else (TLS) only by the task that waits for it.

use super::codec::Decoder;
use super::spool::Spool;
use crate::standing::Standing;
use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::any::Any;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Gives the bare socket back from under an upgraded connection, with what was read and not used.
pub type UnwrapSocket = fn(Upgraded) -> Result<(TcpStream, Bytes), Upgraded>;

/// What a listener says of the connection below a request that asks for an upgrade: an extension of the request.
#[derive(Debug, Clone)]
pub struct RawConnection {
    /// How to get at the socket; without it everything goes through the layers of the listener.
    pub unwrap: Option<UnwrapSocket>,
    /// What the listener counts the connection by: kept for as long as it lives.
    pub place: Arc<dyn Any + Send + Sync>,
    /// Whether a credential was proved on the connection, and whether it is to leave for another.
    pub standing: Standing,
}

/// What is read from.
#[derive(Debug)]
pub enum Input {
    Bare(OwnedReadHalf),
    Layered(ReadHalf<TokioIo<Upgraded>>),
}

/// What is written to.
#[derive(Debug)]
pub enum Output {
    Bare(OwnedWriteHalf),
    /// The flag says that something written may still be in a layer's buffer.
    Layered(WriteHalf<TokioIo<Upgraded>>, bool),
    /// No more is written.
    Shut,
}

/// Both halves, and what was read already.
pub fn halves(upgraded: Upgraded, unwrap: Option<UnwrapSocket>) -> (Input, Output, Bytes) {
    let upgraded = match unwrap {
        None => upgraded,
        Some(unwrap) => match unwrap(upgraded) {
            Err(upgraded) => upgraded,
            Ok((stream, read)) => {
                let (input, output) = stream.into_split();
                return (Input::Bare(input), Output::Bare(output), read);
            }
        },
    };
    let (input, output) = tokio::io::split(TokioIo::new(upgraded));
    (Input::Layered(input), Output::Layered(output, false), Bytes::new())
}

impl Input {
    /// Reads into the decoder's buffer, which is there only once something can be read.
    pub fn poll_read(&mut self, decoder: &mut Decoder, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let came = match self {
            Input::Bare(half) => match half.as_ref().poll_read_ready(cx) {
                Poll::Ready(Ok(())) => pin!(half.read_buf(decoder.room())).poll(cx),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            },
            Input::Layered(half) => pin!(half.read_buf(decoder.room())).poll(cx),
        };
        if came.is_pending() {
            decoder.rest();
        }
        came
    }
}

impl Output {
    /// Whether it can be written to without waiting.
    #[inline]
    pub fn is_bare(&self) -> bool {
        matches!(self, Output::Bare(_))
    }

    /// Writes what can be written; says whether all of it was. With a context, its task is woken when more can be.
    pub fn write(&mut self, spool: &mut Spool, mut cx: Option<&mut Context<'_>>) -> io::Result<bool> {
        while !spool.is_empty() {
            let (slices, count) = spool.slices();
            let slices = slices.get(..count).unwrap_or_default();
            let written = match (&mut *self, &mut cx) {
                (Output::Bare(half), None) => match slices {
                    [one] => half.try_write(one),
                    many => half.try_write_vectored(many),
                },
                (Output::Bare(half), Some(cx)) => now(match slices {
                    [one] => Pin::new(half).poll_write(cx, one),
                    many => Pin::new(half).poll_write_vectored(cx, many),
                }),
                (Output::Layered(half, unflushed), Some(cx)) => {
                    *unflushed = true;
                    now(Pin::new(half).poll_write_vectored(cx, slices))
                }
                (Output::Layered(..), None) => return Ok(false),
                (Output::Shut, _) => Err(ErrorKind::BrokenPipe.into()),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => spool.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if let (Output::Layered(half, unflushed @ true), Some(cx)) = (self, cx) {
            match Pin::new(half).poll_flush(cx) {
                Poll::Ready(flushed) => {
                    *unflushed = false;
                    flushed?;
                }
                Poll::Pending => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Nothing written is on its way through layers.
    #[inline]
    pub fn is_flushed(&self) -> bool {
        !matches!(self, Output::Layered(_, true))
    }

    /// Says that nothing more comes.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = match self {
            Output::Bare(half) => ready!(Pin::new(half).poll_shutdown(cx)),
            Output::Layered(half, _) => ready!(Pin::new(half).poll_shutdown(cx)),
            Output::Shut => Ok(()),
        };
        *self = Output::Shut;
        Poll::Ready(done)
    }
}

fn now(written: Poll<io::Result<usize>>) -> io::Result<usize> {
    match written {
        Poll::Ready(written) => written,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}
