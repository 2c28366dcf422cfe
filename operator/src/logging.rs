//! Sends the log to standard error, as zap does.

use std::fmt;

use jiff::Timestamp;
use operator::settings::{LogFormat, Logging, TimeFormat};
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

/// Starts logging. `RUST_LOG` wins over flags.
pub(crate) fn start(logging: &Logging) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(logging.filter));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_timer(Time(logging.time));
    match logging.format {
        LogFormat::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init(),
        LogFormat::Text => log.with_ansi(false).init(),
    }
}

struct Time(TimeFormat);

impl FormatTime for Time {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let now = Timestamp::now();
        match self.0 {
            TimeFormat::Epoch => write!(w, "{}.{:06}", now.as_second(), now.subsec_microsecond()),
            TimeFormat::Millis => write!(w, "{}", now.as_millisecond()),
            TimeFormat::Nano => write!(w, "{}", now.as_nanosecond()),
            TimeFormat::Iso8601 => write!(w, "{now:.3}"),
            TimeFormat::Rfc3339 => write!(w, "{now:.0}"),
            TimeFormat::Rfc3339Nano => write!(w, "{now:.9}"),
        }
    }
}
