//! What the operator asks of etcd, answered from a list in memory.

use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, service::Routes};

use super::{
    network,
    state::{List, Member},
};

/// Generated from `etcd.proto`.
pub(super) mod api {
    #![allow(missing_docs, unreachable_pub, clippy::pedantic, reason = "generated code")]
    tonic::include_proto!("etcdserverpb");
}

use api::{
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, RangeRequest, RangeResponse, ResponseHeader,
    cluster_server::{Cluster, ClusterServer},
    kv_server::{Kv, KvServer},
};

/// Serves one member.
pub(super) async fn serve(listener: TcpListener, member: Arc<Member>) -> Result<()> {
    let etcd = Etcd(member);
    let routes = Routes::new(KvServer::new(etcd.clone())).add_service(ClusterServer::new(etcd));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(network::serve(stream, routes.clone()));
    }
}

#[derive(Clone)]
struct Etcd(Arc<Member>);

impl Etcd {
    /// The list and the header of an answer, when this member runs and is on the list.
    fn answer(&self, list: List) -> Result<(ResponseHeader, Vec<api::Member>), Status> {
        let id = self
            .0
            .id()
            .ok_or_else(|| Status::unavailable("etcdserver: not started"))?;
        if !list.members.contains_key(&id) {
            return Err(Status::unavailable("etcdserver: server stopped"));
        }
        let header = ResponseHeader {
            cluster_id: list.cluster_id,
            member_id: id,
            revision: 1,
            raft_term: 2,
        };
        Ok((header, list.members.into_values().collect()))
    }
}

#[tonic::async_trait]
impl Kv for Etcd {
    async fn range(&self, _: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.0.cluster.answers().await;
        let (header, _) = self.answer(self.0.cluster.list())?;
        Ok(Response::new(RangeResponse { header: Some(header) }))
    }
}

#[tonic::async_trait]
impl Cluster for Etcd {
    async fn member_add(&self, request: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        self.0.cluster.answers().await;
        let MemberAddRequest { peer_ur_ls, is_learner } = request.into_inner();
        let (added, list) = self.0.cluster.change(|list| {
            // Not etcd's own rule, and as good: unique, and the same each time.
            let urls: Vec<&str> = peer_ur_ls.iter().map(String::as_str).collect();
            let id = etcd::member_id(&urls, &format!("{:x}-{}", list.cluster_id, list.index)).0;
            let member = api::Member {
                id,
                peer_ur_ls,
                is_learner,
                ..api::Member::default()
            };
            list.members.insert(id, member.clone());
            (member, list.clone())
        });
        let (header, members) = self.answer(list)?;
        Ok(Response::new(MemberAddResponse {
            header: Some(header),
            member: Some(added),
            members,
        }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.0.cluster.answers().await;
        let id = request.into_inner().id;
        let list = self
            .0
            .cluster
            .change(|list| list.members.remove(&id).map(|_| list.clone()));
        let list = list.ok_or_else(|| Status::not_found("etcdserver: member not found"))?;
        let (header, members) = self.answer(list)?;
        Ok(Response::new(MemberRemoveResponse {
            header: Some(header),
            members,
        }))
    }

    async fn member_list(&self, _: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        self.0.cluster.answers().await;
        let (header, members) = self.answer(self.0.cluster.list())?;
        Ok(Response::new(MemberListResponse {
            header: Some(header),
            members,
        }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.0.cluster.answers().await;
        let id = request.into_inner().id;
        let list = self.0.cluster.change(|list| {
            list.members.get_mut(&id)?.is_learner = false;
            Some(list.clone())
        });
        let list = list.ok_or_else(|| Status::not_found("etcdserver: member not found"))?;
        let (header, members) = self.answer(list)?;
        Ok(Response::new(MemberPromoteResponse {
            header: Some(header),
            members,
        }))
    }
}
