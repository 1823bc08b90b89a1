//! The service by which other processes use the files of a store that this process has open.

use alluvium::Db;
use alluvium_mount::service::{FilesService, SERVICE};
use alluvium_server::control::{ConnectionService, ConnectionServices};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// [`FilesService`] at a management socket.
struct ManagedFilesService(FilesService);

impl ConnectionService for ManagedFilesService {
    fn serve(&self, stream: UnixStream) {
        self.0.serve(stream);
    }
}

/// Returns the services of a store's management socket.
pub(crate) fn files_services(db: &Db) -> ConnectionServices {
    let service: Arc<dyn ConnectionService> = Arc::new(ManagedFilesService(FilesService::new(db)));
    ConnectionServices::from([(SERVICE.to_owned(), service)])
}
