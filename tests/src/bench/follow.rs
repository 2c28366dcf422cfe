//! Waiting for an object by a watch, to the moment.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, timeout_at};

/// One object, followed from now on.
pub struct Follow<K> {
    name: String,
    stream: BoxStream<'static, watcher::Result<Option<K>>>,
    last: Option<K>,
}

impl<K> Follow<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    K::DynamicType: Default,
{
    /// The object of that name, which need not be there yet.
    #[must_use]
    pub fn new(api: Api<K>, name: &str) -> Self {
        let stream = watcher::watch_object(api, name).default_backoff().boxed();
        Self {
            name: name.into(),
            stream,
            last: None,
        }
    }

    /// When the watch first delivered the object as wanted, and the object. `None` stands for an object that is gone.
    pub async fn until(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(Option<&K>) -> bool,
    ) -> Result<(Instant, Option<K>)> {
        let deadline = Instant::now() + limit;
        loop {
            let Ok(next) = timeout_at(deadline, self.stream.next()).await else {
                let last = self.last.as_ref().map_or_else(|| "not there".to_owned(), in_short);
                bail!(
                    "{} was not {what} within {} s; last seen: {last}",
                    self.name,
                    limit.as_secs()
                );
            };
            // A broken watch is begun again by the stream itself.
            let Ok(object) = next.context("the watch has ended")? else {
                continue;
            };
            let now = Instant::now();
            self.last.clone_from(&object);
            if wanted(object.as_ref()) {
                return Ok((now, object));
            }
        }
    }
}

/// What a person needs to know of an object that does not become what it should.
fn in_short<K: Resource + Serialize>(object: &K) -> String {
    let ending = object
        .meta()
        .deletion_timestamp
        .as_ref()
        .map_or("", |_| "being deleted, ");
    let status = serde_json::to_value(object).unwrap_or_default();
    let status = status.get("status").cloned().unwrap_or_default();
    let conditions = status.get("conditions").cloned().unwrap_or_default();
    format!("{ending}conditions {conditions}")
}
