//! `etcd-agent`: see the library for what it does.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    agent::cli::run(agent::cli::Cli::parse())
}
