//! The contract of file systems, for everything that reads and changes records of a store.

/// Implements [`FileSystem`](crate::FileSystem) for a view of a file system, which has these
/// methods:
///
/// - `reading` runs operations that change nothing.
/// - `changing` runs operations that change what a [`ChangePlan`](super::shared::ChangePlan) names.
/// - `target` returns the inode to which a name refers, if that is worth knowing before a change.
/// - `hold_inode`, `release_inode`, `sync_store`, `space_of_store` and `listen_to` do what the
///   contract says.
macro_rules! impl_file_system {
    ($view:ty, [$($generics:tt)*]) => {
        impl<$($generics)*> crate::contract::FileSystem for $view {
            fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
                self.reading(|reader| reader.lookup(parent, name))
            }

            fn attributes(&self, inode: Inode) -> Result<Attributes> {
                self.reading(|reader| reader.attributes(inode))
            }

            fn parent(&self, directory: Inode) -> Result<Inode> {
                self.reading(|reader| reader.parent(directory))
            }

            fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
                let space = match change.size {
                    Some(_) => SpaceEffect::Frees,
                    None => SpaceEffect::Needs,
                };
                let plan = ChangePlan { inodes: &[inode], names: &[], space };
                self.changing(plan, |writer| writer.set_attributes(inode, change))
            }

            fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
                let (names, space) = ([(parent, name)], SpaceEffect::Needs);
                let plan = ChangePlan { inodes: &[], names: &names, space };
                self.changing(plan, |writer| writer.create(parent, name, node))
            }

            fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
                let plan = ChangePlan { inodes: &[], names: &[], space: SpaceEffect::Needs };
                let created = self.changing(plan, |writer| writer.create_unnamed(parent, node))?;
                self.hold_orphan(created.inode);
                Ok(created)
            }

            fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
                let (names, space) = ([(parent, name)], SpaceEffect::Needs);
                let plan = ChangePlan { inodes: &[inode], names: &names, space };
                self.changing(plan, |writer| writer.link(inode, parent, name))
            }

            fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
                let (names, inodes) = ([(parent, name)], self.target(parent, name));
                let plan = ChangePlan { inodes: &inodes, names: &names, space: SpaceEffect::Frees };
                self.changing(plan, |writer| writer.unlink(parent, name))
            }

            fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
                let (names, inodes) = ([(parent, name)], self.target(parent, name));
                let plan = ChangePlan { inodes: &inodes, names: &names, space: SpaceEffect::Frees };
                self.changing(plan, |writer| writer.remove_directory(parent, name))
            }

            fn rename(
                &self,
                parent: Inode,
                name: &[u8],
                new_parent: Inode,
                new_name: &[u8],
                mode: RenameMode,
            ) -> Result<()> {
                let names = [(parent, name), (new_parent, new_name)];
                let mut inodes = self.target(parent, name);
                inodes.extend(self.target(new_parent, new_name));
                let plan = ChangePlan { inodes: &inodes, names: &names, space: SpaceEffect::Needs };
                self.changing(plan, |writer| writer.rename(parent, name, new_parent, new_name, mode))
            }

            fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
                self.reading(|reader| reader.read_link(inode))
            }

            fn hold(&self, inode: Inode) -> Result<()> {
                self.hold_inode(inode)
            }

            fn release(&self, inode: Inode) -> Result<()> {
                self.release_inode(inode)
            }

            fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
                let mut out = Vec::new();
                self.read_into(inode, offset, length, &mut out)?;
                Ok(out)
            }

            fn read_into(&self, inode: Inode, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<()> {
                self.reading(|reader| reader.read(inode, offset, length, out))
            }

            fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
                let plan = ChangePlan { inodes: &[inode], names: &[], space: SpaceEffect::Needs };
                self.changing(plan, |writer| writer.write(inode, position, data))
            }

            fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
                let space = match mode {
                    AllocateMode::Extend | AllocateMode::KeepSize => SpaceEffect::Needs,
                    _ => SpaceEffect::Frees,
                };
                let plan = ChangePlan { inodes: &[inode], names: &[], space };
                self.changing(plan, |writer| writer.allocate(inode, mode, offset, length))
            }

            fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
                self.reading(|reader| reader.seek(inode, offset, target))
            }

            fn copy_range(
                &self,
                from: Inode,
                from_offset: u64,
                to: Inode,
                to_offset: u64,
                length: u64,
            ) -> Result<u64> {
                let plan = ChangePlan { inodes: &[from, to], names: &[], space: SpaceEffect::Needs };
                self.changing(plan, |writer| writer.copy_range(from, from_offset, to, to_offset, length))
            }

            fn read_directory(
                &self,
                directory: Inode,
                after: Option<&[u8]>,
                limit: usize,
            ) -> Result<Vec<DirectoryEntry>> {
                self.reading(|reader| reader.read_directory(directory, after, limit))
            }

            fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
                self.reading(|reader| reader.extended_attribute(inode, name))
            }

            fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
                self.reading(|reader| reader.extended_attributes(inode))
            }

            fn set_extended_attribute(
                &self,
                inode: Inode,
                name: &[u8],
                value: &[u8],
                mode: SetMode,
            ) -> Result<()> {
                let plan = ChangePlan { inodes: &[inode], names: &[], space: SpaceEffect::Needs };
                self.changing(plan, |writer| writer.set_extended_attribute(inode, name, value, mode))
            }

            fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
                let plan = ChangePlan { inodes: &[inode], names: &[], space: SpaceEffect::Frees };
                self.changing(plan, |writer| writer.remove_extended_attribute(inode, name))
            }

            fn sync(&self) -> Result<()> {
                self.sync_store()
            }

            fn space(&self) -> Result<SpaceStatistics> {
                self.space_of_store()
            }

            fn listen(&self, listener: Arc<dyn crate::contract::ChangeListener>) {
                self.listen_to(listener);
            }
        }
    };
}

pub(super) use impl_file_system;
