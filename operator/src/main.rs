//! The operator's binary: flags, logging, leader election, controllers, metrics; nothing else.

mod logging;
mod run;

use std::process::ExitCode;

use operator::settings::Arguments;

/// The work is waiting for others; more threads would only cost memory.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let arguments = Arguments::of_process();
    logging::start(&arguments.logging());
    for flag in arguments.without_effect() {
        tracing::warn!(
            flag,
            "this flag has no effect: errors carry their causes, there are no stack traces"
        );
    }
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run::run(&arguments)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the operator ends");
            ExitCode::FAILURE
        }
    }
}
