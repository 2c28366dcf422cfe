//! Waiting for conditions.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, timeout};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(150);

/// One look must not take longer: a call that hangs is a condition that does not hold.
const ONE_LOOK: Duration = Duration::from_secs(15);

/// Waits until `probe` succeeds. Its last failure is the reason that is given when time runs out.
pub async fn until<T>(what: &str, within: Duration, mut probe: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        let look = timeout(ONE_LOOK, probe()).await.context("no answer").flatten();
        match look {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() >= within => {
                return Err(error.context(format!("after {} s still not: {what}", within.as_secs())));
            }
            Err(_) => sleep(INTERVAL).await,
        }
    }
}

/// Sees to it that `probe` succeeds all through `period`: for what must not happen.
pub async fn holds(what: &str, period: Duration, mut probe: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < period {
        let look = timeout(ONE_LOOK, probe()).await.context("no answer").flatten();
        look.with_context(|| format!("no longer after {:.1} s: {what}", start.elapsed().as_secs_f32()))?;
        sleep(INTERVAL).await;
    }
    Ok(())
}
