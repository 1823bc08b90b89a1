//! The documents whose experiments the register holds.

/// A publication with experiments in the register.
#[derive(Clone, Copy, Debug)]
pub struct SourceDocument {
    /// The part before the slash in the ids of its experiments.
    pub id: &'static str,
    pub author: &'static str,
    pub title: &'static str,
    /// The place and year of publication.
    pub published: &'static str,
}

/// All documents. Experiment names may repeat across documents; ids are unique because they begin
/// with the document.
pub const DOCUMENTS: [SourceDocument; 5] = [
    SourceDocument {
        id: "seed-0",
        author: "Alexander Conway",
        title: "Understanding Dictionaries at the Intersection of Theory and Practice",
        published: "PhD thesis, Rutgers University, 2020",
    },
    SourceDocument {
        id: "seed-1",
        author: "Hyeontaek Lim",
        title: "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
        published: "PhD thesis, Carnegie Mellon University, 2015",
    },
    SourceDocument {
        id: "seed-2",
        author: "Christoph Rotte",
        title: "Optimizing Write-Heavy Database Operations Using Bε-Trees",
        published: "Bachelor's thesis, Technical University of Munich, 2022",
    },
    SourceDocument {
        id: "seed-3",
        author: "Richard Spillane",
        title: "Efficient, Scalable, and Versatile Application and System Transaction Management for Direct Storage Layers",
        published: "PhD thesis, Stony Brook University, technical report FSL-02-12, 2012",
    },
    SourceDocument {
        id: "seed-4",
        author: "Bender et al.",
        title: "External-memory Dictionaries in the Affine and PDAM Models",
        published: "ACM Transactions on Parallel Computing 8(3), article 15, 2021",
    },
];

/// Returns the document with this id.
#[must_use]
pub fn document(id: &str) -> Option<&'static SourceDocument> {
    DOCUMENTS.iter().find(|document| document.id == id)
}
