//! One side of the proxy: a connection with a client or with a server.

use std::{fmt::Debug, io};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf},
    net::{TcpStream, UnixStream},
};

/// The stream below a connection.
pub(super) trait Wire: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin {
    /// Makes the following close a reset, if the stream supports it.
    fn reset_on_close(&self) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn reset_on_close(&self) -> io::Result<()> {
        self.set_zero_linger()
    }
}

impl Wire for UnixStream {
    fn reset_on_close(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) type Reads = BufReader<ReadHalf<Box<dyn Wire>>>;
pub(super) type Writes = WriteHalf<Box<dyn Wire>>;

/// A connection with separate directions, so that an answer can come while the request is still being sent.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) reads: Reads,
    pub(super) writes: Writes,
}

impl Side {
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        // A head and its body are two writes, and the second would wait until the first is acknowledged.
        stream.set_nodelay(true)?;
        Ok(Self::new(Box::new(stream)))
    }

    pub(super) fn unix(stream: UnixStream) -> Self {
        Self::new(Box::new(stream))
    }

    fn new(wire: Box<dyn Wire>) -> Self {
        let (reads, writes) = tokio::io::split(wire);
        Self { reads: BufReader::new(reads), writes }
    }

    /// Closes it like a killed program, so that the other end gets an error instead of an end.
    pub(super) fn reset(self) -> io::Result<()> {
        self.reads.into_inner().unsplit(self.writes).reset_on_close()
    }
}

/// Waits until something can be read, and returns whether that is the end.
pub(super) async fn ends(reads: &mut Reads) -> bool {
    reads.fill_buf().await.map_or(true, <[u8]>::is_empty)
}

/// Forwards everything in one direction, and then its end.
pub(super) async fn one_way(reads: &mut Reads, writes: &mut Writes) -> io::Result<()> {
    tokio::io::copy_buf(reads, writes).await?;
    writes.shutdown().await
}

/// Forwards everything until both sides have ended.
pub(super) async fn both_ways(mut client: Side, mut server: Side) -> io::Result<()> {
    tokio::try_join!(one_way(&mut client.reads, &mut server.writes), one_way(&mut server.reads, &mut client.writes))?;
    Ok(())
}
