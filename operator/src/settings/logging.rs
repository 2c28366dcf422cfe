//! How to log: what zap's flags mean here.

use clap::ValueEnum;

use super::arguments::Zap;

/// The shape of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// `--zap-encoder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Encoder {
    Json,
    Console,
}

/// How a line says when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeFormat {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// RFC 3339 with milliseconds.
    Iso8601,
    /// RFC 3339 with seconds.
    Rfc3339,
    /// RFC 3339 with nanoseconds.
    #[value(name = "rfc3339nano")]
    Rfc3339Nano,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Shape of a line.
    pub format: LogFormat,
    /// A directive of `tracing_subscriber::EnvFilter`; `RUST_LOG` wins.
    pub filter: &'static str,
    /// How a line says when it was written.
    pub time: TimeFormat,
}

impl Logging {
    pub(super) fn from_zap(zap: &Zap) -> Self {
        let Zap {
            zap_log_level,
            zap_devel,
            zap_encoder,
            zap_stacktrace_level: _,
            zap_time_encoding,
        } = zap;
        let format = match (zap_encoder, zap_devel) {
            (Some(Encoder::Console), _) | (None, true) => LogFormat::Text,
            (Some(Encoder::Json), _) | (None, false) => LogFormat::Json,
        };
        let filter = match (zap_log_level.as_deref(), zap_devel) {
            (Some(level), _) => level_filter(level),
            // The libraries' own detail is for `--zap-log-level=2` and above.
            (None, true) => DEBUG,
            (None, false) => INFO,
        };
        Self {
            format,
            filter,
            time: *zap_time_encoding,
        }
    }
}

/// Libraries speak up only when something is wrong: a steady operator is silent.
const INFO: &str = "warn,operator=info,etcd_operator=info";
const DEBUG: &str = "info,operator=debug,etcd_operator=debug";

/// zap's numbers are logr's: 1 is debug, more is more.
fn level_filter(level: &str) -> &'static str {
    match level {
        "debug" | "1" => DEBUG,
        "error" | "panic" => "error",
        "warn" => "warn",
        number if number.parse::<u32>().is_ok_and(|n| n > 1) => "debug,operator=trace,etcd_operator=trace",
        _ => INFO,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{super::Arguments, *};

    fn logging(line: &[&str]) -> Logging {
        Arguments::try_parse_from(["manager"].iter().chain(line))
            .unwrap()
            .logging()
    }

    #[test]
    fn the_zap_flags_choose_shape_level_and_time() {
        let default = logging(&[]);
        assert_eq!((default.format, default.filter), (LogFormat::Json, INFO));
        let devel = logging(&["--zap-devel"]);
        assert_eq!((devel.format, devel.filter), (LogFormat::Text, DEBUG));
        let mixed = logging(&["--zap-devel", "--zap-encoder=json", "--zap-log-level=error"]);
        assert_eq!((mixed.format, mixed.filter), (LogFormat::Json, "error"));
        assert_eq!(
            logging(&["--zap-time-encoding=rfc3339nano"]).time,
            TimeFormat::Rfc3339Nano
        );
        assert_eq!(
            logging(&["--zap-log-level=3"]).filter,
            "debug,operator=trace,etcd_operator=trace"
        );
    }
}
