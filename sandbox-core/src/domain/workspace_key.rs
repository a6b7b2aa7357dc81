//! What makes two requests ask for the same workspace.

use std::fmt;

use super::digest::digest_hex;
use super::{
    BaseRef, BranchName, ConversationId, Invalid, ProjectId, TaskId, UserId, WorkspaceMode,
};

/// A workspace's identity. At most one workspace that isn't deleted has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey {
    /// For whom it is.
    pub user_id: UserId,
    /// For which project.
    pub project_id: ProjectId,
    /// For what, within these.
    pub purpose: Purpose,
}

/// What a workspace is for, within a user's project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To read what this names.
    Analysis(BaseRef),
    /// To hold a conversation's edits.
    Conversation(ConversationId),
    /// To edit this branch, outside any conversation.
    Branch(BranchName),
    /// To do this task.
    Task(TaskId),
}

/// From what a key is made: a request's parts, or a stored row's.
#[derive(Debug, Clone, Copy)]
pub struct KeyParts<'a> {
    /// For whom.
    pub user_id: &'a UserId,
    /// For which project.
    pub project_id: &'a ProjectId,
    /// For what.
    pub mode: WorkspaceMode,
    /// From what it starts; the key of an analysis.
    pub base_ref: &'a BaseRef,
    /// Its branch; the key of edits outside any conversation.
    pub branch_name: Option<&'a BranchName>,
    /// Its conversation; the key of other edits.
    pub conversation_id: Option<&'a ConversationId>,
    /// Its task; the key of a task.
    pub task_id: Option<&'a TaskId>,
}

impl WorkspaceKey {
    /// The key: of an analysis its base, of edits their conversation or else their branch, of a task
    /// its task.
    ///
    /// # Errors
    /// When the part is missing that would be the key.
    pub fn derive(parts: KeyParts<'_>) -> Result<Self, Invalid> {
        let refuse = |reason| {
            let mode = parts.mode.as_str();
            Err(Invalid::new("workspace request", mode, reason))
        };
        let purpose = match (parts.mode, parts.conversation_id, parts.branch_name) {
            (WorkspaceMode::Analysis, ..) => Purpose::Analysis(parts.base_ref.clone()),
            (WorkspaceMode::Edit, Some(conversation), _) => {
                Purpose::Conversation(conversation.clone())
            }
            (WorkspaceMode::Edit, None, Some(branch)) => Purpose::Branch(branch.clone()),
            (WorkspaceMode::Edit, None, None) => {
                return refuse("edits need a conversation or a branch; give one of them");
            }
            (WorkspaceMode::Task, ..) => match parts.task_id {
                Some(task) => Purpose::Task(task.clone()),
                None => return refuse("a task's workspace needs the task's id; give it"),
            },
        };
        Ok(Self {
            user_id: parts.user_id.clone(),
            project_id: parts.project_id.clone(),
            purpose,
        })
    }

    /// The mode that goes with the purpose.
    #[must_use]
    pub const fn mode(&self) -> WorkspaceMode {
        match self.purpose {
            Purpose::Analysis(_) => WorkspaceMode::Analysis,
            Purpose::Conversation(_) | Purpose::Branch(_) => WorkspaceMode::Edit,
            Purpose::Task(_) => WorkspaceMode::Task,
        }
    }

    /// 64 hexadecimal digits, different for different keys whatever characters they have: a lock's
    /// name, or a part of a path.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let (word, value) = self.purpose.parts();
        digest_hex(&[self.user_id.as_str(), self.project_id.as_str(), word, value])
    }
}

impl Purpose {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Analysis(base) => ("analysis of", base.as_str()),
            Self::Conversation(id) => ("edits of conversation", id.as_str()),
            Self::Branch(branch) => ("edits on branch", branch.as_str()),
            Self::Task(id) => ("task", id.as_str()),
        }
    }
}

/// For people; different keys may look the same here.
impl fmt::Display for WorkspaceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, value) = self.purpose.parts();
        let (user, project) = (&self.user_id, &self.project_id);
        write!(out, "{word} {value} for user {user} in project {project}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(
        mode: WorkspaceMode,
        conversation: Option<&str>,
        branch: Option<&str>,
        task: Option<&str>,
    ) -> Result<WorkspaceKey, Invalid> {
        WorkspaceKey::derive(KeyParts {
            user_id: &UserId::parse("u").expect("a user"),
            project_id: &ProjectId::parse("p").expect("a project"),
            mode,
            base_ref: &BaseRef::parse("main").expect("a base"),
            branch_name: branch
                .map(|text| BranchName::parse(text).expect(text))
                .as_ref(),
            conversation_id: conversation
                .map(|text| ConversationId::parse(text).expect(text))
                .as_ref(),
            task_id: task.map(|text| TaskId::parse(text).expect(text)).as_ref(),
        })
    }

    #[test]
    fn edits_are_keyed_by_conversation_else_by_branch() {
        let edit = |conversation, branch| key(WorkspaceMode::Edit, conversation, branch, None);
        assert_eq!(edit(Some("c"), Some("a")), edit(Some("c"), Some("b")));
        assert_ne!(edit(None, Some("a")), edit(None, Some("b")));
        assert_ne!(edit(Some("a"), None), edit(None, Some("a")));
        assert!(edit(None, None).is_err());
    }

    #[test]
    fn an_analysis_is_keyed_by_its_base_and_a_task_by_itself() {
        let of = |mode, conversation, task| key(mode, conversation, None, task);
        assert_eq!(
            of(WorkspaceMode::Analysis, Some("c"), Some("t")),
            of(WorkspaceMode::Analysis, None, None)
        );
        assert_eq!(
            of(WorkspaceMode::Task, Some("c"), Some("t")),
            of(WorkspaceMode::Task, None, Some("t"))
        );
        assert!(of(WorkspaceMode::Task, Some("c"), None).is_err());
    }

    #[test]
    fn the_mode_is_that_of_the_request() {
        for mode in WorkspaceMode::ALL {
            let key = key(*mode, Some("c"), None, Some("t")).expect("a key");
            assert_eq!(key.mode(), *mode);
        }
    }

    #[test]
    fn fingerprints_differ_where_keys_do() {
        let edit = key(WorkspaceMode::Edit, Some("x"), None, None).expect("a key");
        let branch = key(WorkspaceMode::Edit, None, Some("x"), None).expect("a key");
        let task = key(WorkspaceMode::Task, None, None, Some("x")).expect("a key");
        let mut other = edit.clone();
        other.user_id = UserId::parse("up").expect("a user");
        other.project_id = ProjectId::parse("x").expect("a project");
        let mut prints: Vec<String> = [&edit, &branch, &task, &other]
            .map(WorkspaceKey::fingerprint)
            .into();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), 4);
    }
}
