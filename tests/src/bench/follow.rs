//! Waiting for an object by a watch, to the moment.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// One object, followed from now on.
pub struct Follow<K> {
    name: String,
    stream: BoxStream<'static, watcher::Result<Option<K>>>,
    last: Option<K>,
}

impl<K> Follow<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    /// The object of that name, which need not be there yet.
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
                bail!(
                    "{} was not {what} within {} s; last seen: {:?}",
                    self.name,
                    limit.as_secs(),
                    self.last
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
