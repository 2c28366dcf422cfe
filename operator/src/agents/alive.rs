//! How a link proves its life.
//!
//! A node that is cut off must be noticed within seconds, and thousands of quiet links must cost next to nothing. So
//! the kernel asks every second whether the other end is there (TCP keepalive: no task wakes, nothing is encrypted),
//! and only once in a while the agent itself is asked (HTTP/2 PING), whose process may hang while its kernel answers.

use std::{io, time::Duration};

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// The other kernel is asked when nothing was heard for this long, and again every so often.
const PROBE: Duration = Duration::from_secs(1);
/// A connection whose probes, or bytes, are not answered for this long has ended.
const SILENCE: Duration = Duration::from_secs(3);

/// The agent's process is asked when nothing was heard from it for this long ...
pub(super) const PING: Duration = Duration::from_secs(20);
/// ... and has this long to answer.
pub(super) const PING_ANSWER: Duration = Duration::from_secs(10);

/// Lets the kernel watch over a connection.
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let probes = u32::try_from(SILENCE.as_secs() / PROBE.as_secs()).unwrap_or(u32::MAX);
    let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_keepidle(stream, PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_keepcnt(stream, probes)?;
    // Probes are not sent while bytes wait for an answer: those have the same time.
    sockopt::set_tcp_user_timeout(stream, silence)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}
