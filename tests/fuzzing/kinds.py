"""Every kind of untrusted file that xmlgp reads."""

from tests.fuzzing.corpora import Corpora
from tests.fuzzing.data_files import DataFiles
from tests.fuzzing.libsvm_files import LibsvmFiles
from tests.fuzzing.model_folders import ModelFolders
from tests.fuzzing.scores_files import ScoresFiles
from tests.fuzzing.vectorizer_files import VectorizerFiles

__all__ = ["KINDS"]

KINDS = [DataFiles, LibsvmFiles, ScoresFiles, Corpora, VectorizerFiles, ModelFolders]
