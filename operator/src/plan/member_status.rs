//! What is reported of one member.

use crds::{
    conditions::{self, ConditionStatus, ConditionType, NewCondition, Reason},
    etcdmember::{AgentStatus, DataDirectory, EtcdExit, EtcdMemberStatus},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proto::exit::{OUT_OF_MEMORY, VANISHED};

use super::{
    alarms,
    facts::{Medium, Version},
    report::Report,
    status::{coarse, directory, id_of, role, states},
    step::Plan,
    view::{MemberView, Standing, View},
};

/// The member's whole status. Binding and directive number are kept as they are: steps write them.
#[must_use]
pub fn member(
    view: &View,
    plan: &Plan,
    member: &MemberView,
    generation: i64,
    old: &EtcdMemberStatus,
) -> EtcdMemberStatus {
    let mut status = old.clone();
    let fact = member.fact;
    let report = fact.link.live();
    let etcd = report.and_then(|report| report.etcd.as_ref());
    let pod = fact.pod.ours();
    status.observed_generation = generation;
    // By an ID without a binding and without a word of an agent, members of other operators are known: one of ours that
    // was admitted and has lost its Pod before anything of it was written must not look like these.
    if fact.record.binding.is_some() || fact.record.heard || report.is_some() {
        status.member_id = id_of(member);
    }
    status.is_voter = member.is_voter();
    status.role = Some(role(view, member));
    status.pod_name = pod.map(|_| fact.name.clone());
    // Of a voter in memory, the UID stays that of the Pod whose memory the data were in, until it votes again.
    let renewed_in_memory = view.facts.cluster.spec.medium == Medium::Memory && member.is_voter() && !member.healthy();
    if !renewed_in_memory {
        status.pod_uid = pod.map(|pod| pod.uid.clone());
    }
    status.pvc_name = (view.facts.cluster.spec.medium == Medium::Disk).then(|| crds::names::member_claim(&fact.name));
    status.replicas = i32::from(pod.is_some_and(|pod| pod.ready));
    status.selector = format!("{}={}", crds::labels::COMPONENT, fact.name);
    if let Some(etcd) = etcd {
        status.version = Some(etcd.version.clone())
            .filter(|version| !version.is_empty())
            .or(status.version);
    }
    status.agent = match (report, pod) {
        (Some(report), _) => Some(AgentStatus {
            version: report.agent_version.clone(),
            connected: true,
        }),
        (None, Some(pod)) if pod.has_agent => Some(AgentStatus {
            version: old
                .agent
                .as_ref()
                .map(|agent| agent.version.clone())
                .unwrap_or_default(),
            connected: false,
        }),
        (None, _) => None,
    };
    if let Some(report) = report {
        status.data_directory = Some(DataDirectory {
            state: directory(report.directory.state),
            detail: report.directory.detail.clone(),
            bytes: Some(coarse(i64::try_from(report.directory.bytes).unwrap_or(i64::MAX))),
            quarantined: report.directory.quarantined.clone(),
        });
        status.exit = exit(report, old.exit.as_ref());
    }
    match alarms::full_volume(view, fact) {
        None => {
            conditions::remove(&mut status.conditions, ConditionType::DiskFull);
        }
        Some((reason, message)) => {
            let condition = NewCondition {
                type_: ConditionType::DiskFull,
                status: ConditionStatus::True,
                reason,
                message,
                observed_generation: Some(generation),
            };
            conditions::set(&mut status.conditions, condition, view.facts.now);
        }
    }
    for condition in member_conditions(plan, member, generation) {
        conditions::set(&mut status.conditions, condition, view.facts.now);
    }
    status
}

/// As [`super::status::is_urgent`]: planning itself reads some of it.
#[must_use]
pub fn is_urgent(old: &EtcdMemberStatus, new: &EtcdMemberStatus) -> bool {
    let told = |status: &EtcdMemberStatus| {
        (
            states(&status.conditions),
            status.is_voter,
            status.member_id.clone(),
            status.pod_uid.clone(),
            status.data_directory.is_some(),
        )
    };
    told(old) != told(new)
}

fn exit(report: &Report, old: Option<&EtcdExit>) -> Option<EtcdExit> {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    report.process.exit.as_ref().map(|exit| EtcdExit {
        code: exit.code,
        class: exit.class.clone(),
        last_lines: exit.last_lines.clone(),
        at: Timestamp::from_second(exit.at).ok().map(Time),
        restarts: count(report.process.restarts),
        // The supervisor does not know of those that took it along.
        oom_kills: count(report.process.oom_kills).max(old.map_or(0, |old| old.oom_kills)),
    })
}

/// Kubernetes says that the etcd container was ended for memory at that time. Where the supervisor ended with it, its
/// successor can only tell that etcd has vanished, and this is why (D29).
pub fn explain(status: &mut EtcdMemberStatus, old: &EtcdMemberStatus, killed: Timestamp) {
    let Some(exit) = status.exit.as_mut().filter(|exit| exit.class == VANISHED) else {
        return;
    };
    let is_counted = |old: &EtcdExit| old.class == OUT_OF_MEMORY && old.at == Some(Time(killed));
    OUT_OF_MEMORY.clone_into(&mut exit.class);
    exit.at = Some(Time(killed));
    if !old.exit.as_ref().is_some_and(is_counted) {
        exit.oom_kills = exit.oom_kills.saturating_add(1);
    }
}

fn member_conditions(plan: &Plan, member: &MemberView, generation: i64) -> Vec<NewCondition> {
    let fact = member.fact;
    let wait = plan
        .waits
        .iter()
        .filter(|wait| wait.member.as_deref() == Some(&fact.name))
        .min_by_key(|wait| wait.reason);
    let because = |otherwise: &str| wait.map_or_else(|| otherwise.to_owned(), |wait| wait.message.clone());
    let ready = fact.pod.ours().is_some_and(|pod| pod.ready);
    let (status, reason, message) = match &member.standing {
        _ if fact.dormant => (
            ConditionStatus::False,
            Reason::Paused,
            "the cluster is paused".to_owned(),
        ),
        Standing::Voter(_) | Standing::Learner(_) if ready => {
            (ConditionStatus::True, Reason::PodReady, "serves".to_owned())
        }
        Standing::Unknown if ready && fact.record.voter => {
            (ConditionStatus::True, Reason::PodReady, "its Pod is ready".to_owned())
        }
        _ if fact.record.binding.is_none() && member.listed.is_none() => (
            ConditionStatus::False,
            Reason::DiscoveringMemberID,
            because("it has no member ID yet"),
        ),
        _ => (
            ConditionStatus::False,
            Reason::PodNotReady,
            because("its Pod is not ready"),
        ),
    };
    let mut all = vec![NewCondition {
        type_: ConditionType::Ready,
        status,
        reason,
        message,
        observed_generation: Some(generation),
    }];
    let running = fact
        .link
        .live()
        .and_then(|report| report.etcd.as_ref())
        .and_then(|etcd| Version::parse(&etcd.version));
    if let (Some(running), Some(wanted)) = (running, fact.version) {
        let drifted = running != wanted;
        all.push(NewCondition {
            type_: ConditionType::VersionDrifted,
            status: drifted.into(),
            reason: if drifted {
                Reason::VersionMismatch
            } else {
                Reason::VersionMatched
            },
            message: if drifted {
                format!("runs {running}, {wanted} is wanted")
            } else {
                format!("runs {running}")
            },
            observed_generation: Some(generation),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vanished(oom_kills: i32) -> EtcdMemberStatus {
        EtcdMemberStatus {
            exit: Some(EtcdExit {
                code: 137,
                class: VANISHED.into(),
                at: Some(Time(Timestamp::UNIX_EPOCH)),
                oom_kills,
                ..EtcdExit::default()
            }),
            ..EtcdMemberStatus::default()
        }
    }

    #[test]
    fn d29_an_etcd_that_vanished_when_its_container_was_killed_for_memory_is_said_to_be_and_counted_once() {
        let noon: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let mut first = vanished(0);
        explain(&mut first, &EtcdMemberStatus::default(), noon);
        let exit = first.exit.clone().unwrap();
        assert_eq!(
            (exit.class.as_str(), exit.oom_kills, exit.at),
            (OUT_OF_MEMORY, 1, Some(Time(noon)))
        );
        // The report goes on saying what it said: nothing changes any more.
        let mut again = vanished(1);
        explain(&mut again, &first, noon);
        assert_eq!(again.exit, first.exit);
        // The next kill is another one.
        let mut next = vanished(1);
        explain(&mut next, &first, "2026-06-01T13:00:00Z".parse().unwrap());
        assert_eq!(next.exit.unwrap().oom_kills, 2);
    }

    #[test]
    fn an_end_that_the_supervisor_saw_is_told_as_it_saw_it() {
        let mut seen = vanished(0);
        seen.exit.as_mut().unwrap().class = "Hung".into();
        let before = seen.clone();
        explain(&mut seen, &EtcdMemberStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(seen, before);
    }
}
