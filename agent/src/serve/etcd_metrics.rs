//! The few values of etcd's metrics page that tell how a member fares before its client port serves. Pure.

/// Values of the page; `None` where a line is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// `etcd_server_has_leader`.
    pub has_leader: bool,
    /// `etcd_server_is_leader`.
    pub is_leader: bool,
    /// `etcd_server_is_learner`.
    pub is_learner: Option<bool>,
    /// `etcd_server_id`: this member's ID.
    pub member_id: Option<u64>,
    /// `etcd_server_proposals_committed_total`: the commit index.
    pub committed: u64,
    /// `etcd_server_proposals_applied_total`: the applied index.
    pub applied: u64,
    /// `etcd_mvcc_db_total_size_in_bytes`.
    pub db_size: i64,
    /// `etcd_mvcc_db_total_size_in_use_in_bytes`.
    pub db_size_in_use: i64,
    /// A snapshot from the leader is being received or applied.
    pub receiving_snapshot: bool,
}

/// Reads the page. What cannot be read counts as not there: the page is etcd's, and its names may change.
#[must_use]
pub fn parse(page: &str) -> Metrics {
    let mut metrics = Metrics::default();
    for line in page.lines().filter(|line| line.starts_with("etcd_")) {
        let Some((key, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let (name, labels) = key.split_once('{').unwrap_or((key, ""));
        let value: f64 = value.trim().parse().unwrap_or_default();
        match name {
            "etcd_server_has_leader" => metrics.has_leader = value > 0.0,
            "etcd_server_is_leader" => metrics.is_leader = value > 0.0,
            "etcd_server_is_learner" => metrics.is_learner = Some(value > 0.0),
            "etcd_server_id" if value > 0.0 => {
                let id = labels.split('"').nth(1).and_then(|id| u64::from_str_radix(id, 16).ok());
                metrics.member_id = id.or(metrics.member_id);
            }
            "etcd_server_proposals_committed_total" => metrics.committed = whole(value),
            "etcd_server_proposals_applied_total" => metrics.applied = whole(value),
            "etcd_mvcc_db_total_size_in_bytes" => metrics.db_size = whole(value).try_into().unwrap_or(i64::MAX),
            "etcd_mvcc_db_total_size_in_use_in_bytes" => {
                metrics.db_size_in_use = whole(value).try_into().unwrap_or(i64::MAX);
            }
            "etcd_network_snapshot_receive_inflights_total" | "etcd_server_snapshot_apply_in_progress_total" => {
                metrics.receiving_snapshot |= value > 0.0;
            }
            _ => {}
        }
    }
    metrics
}

/// Prometheus writes all numbers as floats; indexes are exact up to 2^53.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped by the cast, and never negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_found_among_comments_and_labels() {
        let page = "HTTP/1.0 200 OK\r\n\r\n# HELP etcd_server_has_leader x\n# TYPE etcd_server_has_leader gauge\n\
            etcd_server_has_leader 1\netcd_server_is_leader 0\netcd_server_is_learner 1\n\
            etcd_server_id{server_id=\"8e9e05c52164694d\"} 1\n\
            etcd_server_proposals_committed_total 1.234567e+06\netcd_server_proposals_applied_total 17\n\
            etcd_network_snapshot_receive_inflights_total{From=\"a b\"} 1\n\
            etcd_server_snapshot_apply_in_progress_total 0\netcd_mvcc_db_total_size_in_bytes 20480\n\
            go_goroutines 90\n";
        let expected = Metrics {
            has_leader: true,
            is_leader: false,
            is_learner: Some(true),
            member_id: Some(0x8e9e_05c5_2164_694d),
            committed: 1_234_567,
            applied: 17,
            db_size: 20_480,
            db_size_in_use: 0,
            receiving_snapshot: true,
        };
        assert_eq!(parse(page), expected);
    }

    #[test]
    fn a_page_that_is_none_says_nothing() {
        assert_eq!(
            parse("HTTP/1.0 503 x\r\n\r\netcd_server_has_leader\netcd_server_id{ nonsense"),
            Metrics::default()
        );
    }
}
