//! What somebody asks for when they ask for a workspace.

use super::{
    AuthToken, BaseRef, BranchName, ConversationId, Invalid, KeyParts, ProjectId, RepoName,
    RepoUrl, TaskId, UserId, WorkspaceKey, WorkspaceMode,
};

/// A request for a workspace. It is never stored, since it may hold a token.
#[derive(Debug)]
pub struct WorkspaceRequest {
    /// For whom.
    pub user_id: UserId,
    /// For which project.
    pub project_id: ProjectId,
    /// Of which repository.
    pub repo_name: RepoName,
    /// Where that is; by default on github.com.
    pub repo_url: Option<RepoUrl>,
    /// From what to start.
    pub base_ref: BaseRef,
    /// For what.
    pub mode: WorkspaceMode,
    /// In which conversation.
    pub conversation_id: Option<ConversationId>,
    /// For which task.
    pub task_id: Option<TaskId>,
    /// On which branch; by default on one named after the conversation or task.
    pub branch_name: Option<BranchName>,
    /// May the branch be made? Else it has to be there.
    pub create_branch: bool,
    /// With which access to the code host.
    pub auth_token: Option<AuthToken>,
}

impl WorkspaceRequest {
    /// The identity of the workspace that it asks for.
    ///
    /// # Errors
    /// When edits have neither conversation nor branch, or a task has no id.
    pub fn key(&self) -> Result<WorkspaceKey, Invalid> {
        WorkspaceKey::derive(KeyParts {
            user_id: &self.user_id,
            project_id: &self.project_id,
            mode: self.mode,
            base_ref: &self.base_ref,
            branch_name: self.branch_name.as_ref(),
            conversation_id: self.conversation_id.as_ref(),
            task_id: self.task_id.as_ref(),
        })
    }

    /// The branch of the workspace: the one named, else that of the conversation or task. An analysis
    /// has none; it reads its base.
    #[must_use]
    pub fn branch(&self) -> Option<BranchName> {
        match self.mode {
            WorkspaceMode::Analysis => None,
            WorkspaceMode::Edit => self
                .branch_name
                .clone()
                .or_else(|| self.conversation_id.as_ref().map(BranchName::for_edits)),
            WorkspaceMode::Task => self
                .branch_name
                .clone()
                .or_else(|| self.task_id.as_ref().map(BranchName::for_task)),
        }
    }

    /// Where to fetch from.
    ///
    /// # Errors
    /// When the URL's path names another repository than the request.
    pub fn url(&self) -> Result<RepoUrl, Invalid> {
        let Some(url) = &self.repo_url else {
            return Ok(RepoUrl::github(&self.repo_name));
        };
        match url.repo() {
            Some(repo) if !repo.as_str().eq_ignore_ascii_case(self.repo_name.as_str()) => {
                Err(Invalid::new(
                    "repository name",
                    self.repo_name.as_str(),
                    "the URL beside it leads to another repository; correct one of them",
                ))
            }
            _ => Ok(url.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    fn request(mode: WorkspaceMode) -> WorkspaceRequest {
        WorkspaceRequest {
            user_id: UserId::parse("u").expect("a user"),
            project_id: ProjectId::parse("p").expect("a project"),
            repo_name: RepoName::parse("octo/hello").expect("a name"),
            repo_url: None,
            base_ref: BaseRef::parse("main").expect("a base"),
            mode,
            conversation_id: Some(ConversationId::parse("c").expect("an id")),
            task_id: Some(TaskId::parse("t").expect("an id")),
            branch_name: None,
            create_branch: false,
            auth_token: Some(AuthToken::parse("s3cret".to_owned()).expect("a token")),
        }
    }

    #[test]
    fn branches_are_named_after_what_they_are_for_unless_named() {
        let branch = |request: &WorkspaceRequest| request.branch().map(|name| name.to_string());
        assert_eq!(branch(&request(WorkspaceMode::Analysis)), None);
        let mut edit = request(WorkspaceMode::Edit);
        assert_eq!(branch(&edit), Some("agent/edits-c".to_owned()));
        edit.branch_name = Some(BranchName::parse("fix").expect("a branch"));
        assert_eq!(branch(&edit), Some("fix".to_owned()));
        let task = request(WorkspaceMode::Task);
        assert_eq!(branch(&task), Some("agent/task-t".to_owned()));
    }

    #[test]
    fn a_key_is_made_of_the_parts_that_its_mode_needs() {
        let purpose = |mode| request(mode).key().expect("a key").purpose;
        assert!(matches!(
            purpose(WorkspaceMode::Analysis),
            Purpose::Analysis(_)
        ));
        assert!(matches!(
            purpose(WorkspaceMode::Edit),
            Purpose::Conversation(_)
        ));
        assert!(matches!(purpose(WorkspaceMode::Task), Purpose::Task(_)));
    }

    #[test]
    fn a_url_of_another_repository_is_refused() {
        let mut asked = request(WorkspaceMode::Edit);
        assert_eq!(
            asked.url().map(|url| url.to_string()),
            Ok("https://github.com/octo/hello.git".to_owned())
        );
        asked.repo_url = Some(RepoUrl::parse("https://example.org/Octo/Hello").expect("a URL"));
        assert!(asked.url().is_ok());
        asked.repo_url = Some(RepoUrl::parse("https://example.org/octo/other").expect("a URL"));
        assert!(asked.url().is_err());
    }

    #[test]
    fn debug_does_not_show_the_token() {
        assert!(!format!("{:?}", request(WorkspaceMode::Edit)).contains("s3cret"));
    }
}
