//! Clusters that were made without agents.

use operator::plan::facts::Medium;
use tests::model::Sim;

use super::formed;

/// As another operator left it: IDs and votes are recorded, bindings are not, and no Pod has an agent.
fn adopted(pods: usize) -> Sim {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    for (index, member) in sim.members.iter_mut().enumerate() {
        member.record.binding = None;
        member.record.directive = 0;
        member.record.heard = false;
        match &mut member.pod {
            Some(pod) if index < pods => pod.has_agent = false,
            _ => member.pod = None,
        }
    }
    sim.refresh();
    sim
}

#[test]
fn no_pod_of_ours_is_made_for_a_cluster_that_was_made_without_agents() {
    for pods in 0..=3 {
        for target in [3, 5, 0] {
            let mut sim = adopted(pods);
            sim.scale(target);
            let names = sim.names();
            sim.run(100);
            let left = sim.members.iter().filter(|member| member.pod.is_some()).count();
            assert_eq!((sim.names(), left), (names, pods), "{}", sim.story());
            let plan = sim.plan_now();
            assert!(
                plan.waits
                    .iter()
                    .any(|wait| wait.message.contains("made without an agent")),
                "{plan:?}"
            );
        }
    }
}

#[test]
fn no_pod_of_ours_is_made_for_a_formed_cluster_with_fields_that_we_could_not_have_formed_it_with() {
    let mut sim = adopted(0);
    sim.spec.blocks_formation = vec!["spec.tls".into()];
    for member in &mut sim.members {
        member.record = operator::plan::facts::MemberRecord::default();
    }
    sim.run(50);
    assert!(sim.members.iter().all(|member| member.pod.is_none()));
}
