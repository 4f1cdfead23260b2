//! A remote file as `ztensor` sees it: a length, and ranges that are read when they are asked for, or ahead of that when they were announced.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ztensor::{Ranges, Result, Source};

use crate::ahead::Ahead;
use crate::cache::Cache;
use crate::fetch::Opened;
use crate::fetcher::Fetcher;
use crate::location::{HubFile, Location, shown};
use crate::options::StorageOptions;
use crate::origin::Origin;
use crate::origin::bucket::Bucket;
use crate::origin::http::Http;
use crate::origin::hub::Hub;
use crate::whole::Terms;
use crate::{fetch, process};

/// What opening a file brings at once: enough for the header of 300 tensors.
const HEAD: u64 = 64 << 10;

/// Opens the file at a location.
pub(crate) fn open(location: Location, options: &StorageOptions) -> Result<Source> {
    let (origin, name) = origin(location, options)?;
    over(origin, &name, options)
}

/// How long the file at a location is.
pub(crate) fn length(location: Location, options: &StorageOptions) -> Result<Option<u64>> {
    let (origin, _) = origin(location, options)?;
    process::wait_for(fetch::length(&*origin))
}

/// A location as something that is asked, and its name.
fn origin(location: Location, options: &StorageOptions) -> Result<(Arc<dyn Origin>, String)> {
    Ok(match location {
        Location::Bucket(url) => (Arc::new(Bucket::new(&url, options)?), url.to_string()),
        Location::Http(url) => {
            let name = url.to_string();
            (Arc::new(Http::new(url, options)?), name)
        }
        Location::Hub(file) => {
            let hub = Hub::new(file, options)?;
            let name = hub.name();
            (Arc::new(hub), name)
        }
    })
}

/// Opens a file of the hub, and keeps what the hub says of it.
pub(crate) fn open_hub(file: HubFile, options: &StorageOptions) -> Result<(Arc<Hub>, Source)> {
    let hub = Arc::new(Hub::new(file, options)?);
    let source = over(Arc::clone(&hub) as Arc<dyn Origin>, &hub.name(), options)
        .map_err(|error| error.with_path(&shown(&hub.name())))?;
    Ok((hub, source))
}

fn over(origin: Arc<dyn Origin>, name: &str, options: &StorageOptions) -> Result<Source> {
    // Also with a cache: the server has to say which state of the file is the present one.
    let name = shown(name).to_string_lossy().into_owned();
    let terms = Terms::new(name, options)?;
    let (length, head) = match process::wait_for(fetch::open(&*origin, HEAD, &terms))? {
        Opened::InParts(length, head) => (length, head),
        Opened::Whole(copy) => return copy.into_source(terms.name()),
    };
    let cache = Cache::of(&*origin, length, options)?;
    let file = RemoteFile { fetcher: Arc::new(Fetcher { origin, cache }), length, ahead: Mutex::default() };
    Ok(Source::from_ranges(Box::new(file), terms.name(), head))
}

struct RemoteFile {
    fetcher: Arc<Fetcher>,
    length: u64,
    ahead: Mutex<Option<Arc<Ahead>>>,
}

impl RemoteFile {
    fn ahead(&self) -> Option<Arc<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|ahead| ahead.is_ours())
    }
}

impl Ranges for RemoteFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let taken = match self.ahead() {
            Some(ahead) => ahead.take(offset, buffer)?,
            None => 0,
        };
        match &mut buffer[taken..] {
            [] => Ok(()),
            rest => process::wait_for(self.fetcher.fetch(offset + taken as u64, rest)),
        }
    }

    fn is_announced(&self, range: Range<u64>) -> bool {
        self.ahead().is_some_and(|ahead| ahead.holds(&range))
    }

    fn announce(&self, ranges: Vec<Range<u64>>) {
        let ahead = Ahead::start(Arc::clone(&self.fetcher), ranges);
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
    }
}
