//! First starts: the seed, a joiner, and what may go wrong between.

use proto::agent as wire;
use proto::agent::data_directory::State as Directory;
use proto::agent::process::State as Process;

use crate::support::pod::Pod;
use crate::support::test;

pub fn directory(report: &wire::Report) -> Directory {
    report
        .data_directory
        .as_ref()
        .map(wire::DataDirectory::state)
        .unwrap_or_default()
}

pub fn process(report: &wire::Report) -> Process {
    report.process.as_ref().map(wire::Process::state).unwrap_or_default()
}

pub fn nonce(report: &wire::Report) -> String {
    report
        .data_directory
        .as_ref()
        .map(|directory| directory.nonce.clone())
        .unwrap_or_default()
}

pub fn serves(report: &wire::Report) -> bool {
    process(report) == Process::Running
        && report
            .etcd
            .as_ref()
            .is_some_and(|etcd| etcd.serving && etcd.leader != 0)
}

#[test]
fn a_seed_starts_with_the_ids_that_both_ends_have_computed() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let pod = Pod::started(&net, &ca, "c-a", minor);
            let operator = pod.link().await;
            let held = operator.until("a nonce", |report| !nonce(report).is_empty()).await;
            assert_eq!((directory(&held), process(&held)), (Directory::Unborn, Process::Held));
            operator.direct(1, 1, &nonce(&held), pod.seed("token-1")).await.unwrap();
            let report = operator.until("etcd serves", serves).await;
            let (member_id, cluster_id) = pod.seed_ids("token-1");
            let etcd = report.etcd.unwrap();
            assert_eq!(
                (etcd.member_id, etcd.cluster_id),
                (member_id, cluster_id),
                "etcd {minor}"
            );
            let identity = report.data_directory.unwrap().identity.unwrap();
            assert_eq!(
                (identity.member_id, identity.cluster_id, identity.nonce),
                (member_id, cluster_id, nonce(&held))
            );
        }
    });
}
