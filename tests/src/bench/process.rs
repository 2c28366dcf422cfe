//! What a process takes of the machine, read from `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

/// Bytes of a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// Resident memory in bytes (`VmRSS`: its own pages, and those of its file that it has touched).
pub fn resident(pid: i32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process has ended")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

/// Its share of one core over that time, in per cent.
pub async fn share(pid: i32, time: Duration) -> Result<f64> {
    let (begin, used) = (Instant::now(), processor_time(pid)?);
    sleep(time).await;
    Ok(processor_time(pid)?.saturating_sub(used).as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0)
}

fn processor_time(pid: i32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process has ended")?;
    // The second field, the program's name, may hold spaces; it ends with the last parenthesis.
    let after_name = stat.rsplit_once(')').context("an unreadable stat")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // utime and stime of proc(5), which counts from 1 and has two fields before these.
    let ticks = |field: usize| -> Result<u64> { Ok(fields.get(field).context("a short stat")?.parse()?) };
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_computes_takes_much_of_a_core_and_an_idle_one_little() {
        let own = std::process::id().cast_signed();
        assert!(resident(own).unwrap() > 500_000.0);
        let computing = std::thread::spawn(|| {
            let end = std::time::Instant::now() + Duration::from_millis(500);
            while std::time::Instant::now() < end {}
        });
        let busy = share(own, Duration::from_millis(400)).await.unwrap();
        computing.join().unwrap();
        let idle = share(own, Duration::from_millis(400)).await.unwrap();
        assert!(busy > 5.0 && busy > idle, "busy {busy}, idle {idle}");
    }
}
