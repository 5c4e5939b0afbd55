"""What nbgrader reads in this folder; see docs/teaching.md."""

from traitlets.config import get_config

c = get_config()
c.CourseDirectory.course_id = "refimpl"
c.ExecutePreprocessor.timeout = 120
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("your answer, in place of this line")'}
c.ClearSolutions.text_stub = "Your answer, in place of this line."
